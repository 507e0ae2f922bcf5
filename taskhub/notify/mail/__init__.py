"""E-mail: written from templates as HTML and text, and handed to one SMTP server."""
