"""Everything that works on many events or many runs: jobs on Spark (``pip install 'gapless[spark]'``).

A job is a pure function from DataFrames to a DataFrame (:mod:`gapless.spark.jobs`); a command of
``gapless spark`` reads, calls it and shows the result. :mod:`gapless.spark.session` is the one place that
makes a session, :mod:`gapless.spark.schemas` the one place that names columns."""
