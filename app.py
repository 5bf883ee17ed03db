"""The page: `python app.py`, then open http://localhost:7860."""

from slem_demo.ui.page import build, launch_options, load

demo = build(load())

if __name__ == "__main__":
    demo.launch(**launch_options())
