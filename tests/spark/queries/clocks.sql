-- A process numbers its events; one that is a second earlier than the one before it had its clock
-- set back. Only events that hold until something else comes are looked at.
select run, node, id, before_us, time_us
from (
    select *, lag(time_us) over (partition by run, id // 1099511627776 order by id) as before_us
    from lasting
)
where before_us - time_us > 1000000
