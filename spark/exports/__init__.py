"""A trace in other people's forms: a viewer's time line, a diagram of one chain of causes."""
