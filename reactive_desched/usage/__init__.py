"""Where real use is measured: the sources of metrics, and how their answers become samples."""
