-- What became of each node's sessions.
select run, node, count(distinct session) as sessions,
    count(*) filter (state = 'connected') as connected, count(*) filter (state = 'suspended') as suspended,
    count(*) filter (state = 'expired') as expired, count(*) filter (state = 'closed') as closed
from SessionChanged group by run, node
