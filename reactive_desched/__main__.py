"""`python -m reactive_desched` is the same as `reactive-desched`."""

import sys

from reactive_desched.cli import main

sys.exit(main())
