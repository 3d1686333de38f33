-- Operations and their latency in each slice of time.
select run, slice_of(time_us) as bin_us, count(*) as operations, sum(count)::bigint as znodes,
    avg(latency_us) as latency_mean_us, max(latency_us) as latency_max_us
from KeeperOperation group by run, bin_us
