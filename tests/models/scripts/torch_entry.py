"""A script that imports no framework: a file beside it trains."""

from library.engine import train

if __name__ == "__main__":
    train(epochs=3)
    open("written", "w").close()
