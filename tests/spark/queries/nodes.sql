-- Each node's times: up, down or paused, from when until when; what says the same again is nothing.
with marks as (
    select *, lag(state) over (partition by run, node order by time_us, id) as before from presences
),
changes as (select * from marks where before is distinct from state)
select run, node, state, time_us as from_us,
    greatest(
        time_us,
        coalesce(lead(time_us) over (partition by run, node order by time_us, id), last_us)
    ) as to_us
from changes join spans using (run)
