"""What `Repo` does, by what a person is about: reading, changing, sharing.

A method here is a few lines: it names an operation's module, which is loaded when it is called.
"""
