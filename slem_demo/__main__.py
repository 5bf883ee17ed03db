import sys

from slem_demo.cli import main

sys.exit(main())
