-- How many partitions were out at some time in each slice in which one began or ceased to be so.
with windows as (
    select *, slice_of(from_us) as first_bin, slice_of(to_us) as last_bin from availability_windows
),
bins as (
    select run, kind, first_bin as bin_us from windows
    union select run, kind, last_bin from windows
),
outages as (
    select b.run, b.kind, b.bin_us, topic, partition,
        min(first_bin) = bin_us as has_begun, max(last_bin) = bin_us as has_ended
    from bins b join windows w on w.run = b.run and w.kind = b.kind
        and b.bin_us between first_bin and last_bin
    group by b.run, b.kind, b.bin_us, topic, partition
)
select run, kind, bin_us, count(*) filter (has_begun) as began,
    count(*) filter (has_ended) as ended, count(*) filter (not has_ended) as after,
    count(*) as partitions
from outages group by run, kind, bin_us having began > 0 or ended > 0
