-- Little's law: the mean number that waits is all waiting over the time; busy is all work over it.
select run, actor, slice_of(time_us) as bin_us, count(*) as messages,
    sum(queue_us) / (select width_us from slices) as mean_depth,
    max(queue_us) as longest_wait_us, sum(handle_us) / (select width_us from slices) as busy
from MessageHandled group by run, actor, bin_us
