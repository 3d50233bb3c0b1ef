"""What tests of this package, and of plugins made elsewhere, are built from."""
