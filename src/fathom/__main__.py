"""The command line: ``fathom``, and ``python -m fathom`` where its folder is not on the path."""

import signal


def main() -> None:
    """Run a command. Ctrl-C ends the process in silence until the command has begun, not with an import's traceback."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else ignored, by nohup
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from fathom.cli import main as call

    call()


if __name__ == "__main__":
    main()
