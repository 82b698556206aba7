"""Subjects take turns, in short slices and in another order every round: whatever else the machine does hits all of them alike. Read ratios."""
import time

MOST_S = 15  # that one slice may take, as far as can be told before


def percentile(values, percent):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))] if ordered else None


def figures(us):
    """Of latencies in microseconds, in milliseconds."""
    ordered = sorted(us)
    return {f"p{p:g}_ms": percentile(ordered, p) / 1000 if ordered else None for p in (1, 10, 50, 90, 99, 99.9)} | {"max_ms": ordered[-1] / 1000 if ordered else None}


def together(slices):
    """One row of all slices of a subject."""
    us = [t for part in slices for t in part.us]
    seconds, runs = sum(part.seconds for part in slices), sum(part.runs for part in slices)
    return {"runs": runs, "counted": len(us), "failed": sum(part.failed for part in slices), "seconds": seconds, "rate": len(us) / seconds if seconds else 0.0,
            "cpu_ms": max(0.0, 1000 * sum(part.cpu_s for part in slices) / runs) if runs else None, **figures(us),
            "why": next((part.why for part in slices if part.failed), None)}


class Turns:
    """Remembers how fast each subject is, so that a slow one gets a slice that ends."""

    def __init__(self, rounds):
        self.rounds, self.rates = rounds, {}

    def too_slow(self, subject, key, runs):
        """Why so many runs of a peer at once are not to be waited for, or None."""
        rate = self.rates.get((subject.name, key))
        if subject.is_peer and rate and runs / rate > MOST_S:
            return f"{runs} at once would take {runs / rate:.0f} s"
        return None

    def many(self, subject, key, clients, ms):
        """Does a slice have enough runs to do without the first and the last of each client?"""
        rate = self.rates.get((subject.name, key))
        return ms > 2 * subject.ramp_ms and (rate is None or rate * ms / 1000 >= 4 * clients)

    def take(self, subjects, key, program, clients, seconds, pause_ms=0):
        """{subject: row, or {"skipped": why}}. Each gets `seconds` in all; one whose runs take longer has at least one of each client."""
        rows = {s.name: {"skipped": why} for s in subjects if (why := self.too_slow(s, key, clients))}
        taken = {s.name: [] for s in subjects if s.name not in rows}
        used = dict.fromkeys(taken, 0.0)
        order = [s for s in subjects if s.name in taken]
        ms = int(1000 * seconds / self.rounds)
        for turn in range(self.rounds):
            for subject in order[turn % len(order):] + order[:turn % len(order)]:
                if used[subject.name] >= seconds:
                    continue
                time.sleep(subject.gap_s)
                start = time.monotonic()
                taken[subject.name].append(subject.slice(program, clients=clients, ms=ms, pause_ms=pause_ms, ramp=not pause_ms and self.many(subject, key, clients, ms)))
                used[subject.name] += time.monotonic() - start
        for name, slices in taken.items():
            rows[name] = together(slices)
            if rows[name]["rate"] and not pause_ms:
                self.rates[name, key] = rows[name]["rate"]
        return {s.name: rows[s.name] for s in subjects}
