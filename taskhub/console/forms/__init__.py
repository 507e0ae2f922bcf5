"""Every form of the console. A page draws its fields with `{% field %}` and writes no input itself."""
