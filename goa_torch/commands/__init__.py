"""The subcommands of ``goa``, one module each."""
