-- Calls of each kind in each slice of time.
select run, request, slice_of(time_us) as bin_us, count(*) as calls,
    count(*) filter (outcome <> 'ok') as errors, avg(latency_us) as latency_mean_us,
    max(latency_us) as latency_max_us
from CallFinished group by run, request, bin_us
