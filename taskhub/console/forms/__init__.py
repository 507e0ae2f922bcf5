"""The console's forms. Templates draw each field with `{% field %}`; they contain no inputs of their own."""
