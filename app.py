"""The page: `python app.py`, then open http://localhost:7860."""

import slem_demo.ui.zero  # noqa: F401 - on a ZeroGPU Space, `spaces` comes before anything that could touch CUDA
from slem_demo.ui.page import build, launch_options, shelf_of_host

demo = build(shelf_of_host())

if __name__ == "__main__":
    demo.launch(**launch_options())
