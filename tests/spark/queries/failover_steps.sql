-- Each step of taking office, in epochs that there is a row of; its event is left when it is done.
select run, controller_epoch, node, step, count, took_us, id, time_us, time_us - took_us as begun_us
from FailoverStep
semi join controller using (run, controller_epoch)
