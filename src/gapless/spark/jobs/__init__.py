"""The jobs: each a pure function from DataFrames to a DataFrame, for any session."""
