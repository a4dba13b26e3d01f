"""network.c: a Program as C source in the interface of the vendor's runtime."""
