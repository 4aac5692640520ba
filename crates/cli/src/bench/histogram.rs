//! A histogram of decision times that does not allocate: buckets of one part in 32, from one nanosecond to minutes.

const SUB_BITS: u32 = 5;
const SUB: usize = 1 << SUB_BITS;
const BUCKETS: usize = SUB * 40;

/// A histogram of nanoseconds.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS], total: 0, max: 0 }
    }
}

impl Histogram {
    /// Counts one duration, in nanoseconds.
    pub fn record(&mut self, nanoseconds: u64) {
        let last = BUCKETS - 1;
        if let Some(count) = self.counts.get_mut(bucket(nanoseconds).min(last)) {
            *count += 1;
        }
        self.total += 1;
        self.max = self.max.max(nanoseconds);
    }

    /// Adds what another histogram counted.
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.total += other.total;
        self.max = self.max.max(other.max);
    }

    /// Returns the number of durations.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns the longest duration, in nanoseconds, exactly.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Returns the quantile `share` (0 to 1) of all durations, in nanoseconds, rounded up to its bucket.
    pub fn quantile(&self, share: f64) -> u64 {
        let wanted = (share * self.total as f64).ceil() as u64;
        let mut seen = 0;
        for (at, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted.max(1) {
                return upper(at).min(self.max);
            }
        }
        self.max
    }
}

fn bucket(nanoseconds: u64) -> usize {
    if nanoseconds < SUB as u64 {
        return nanoseconds as usize;
    }
    let shift = nanoseconds.ilog2() - SUB_BITS;
    (shift as usize + 1) * SUB + ((nanoseconds >> shift) as usize - SUB)
}

fn upper(bucket: usize) -> u64 {
    if bucket < SUB {
        return bucket as u64;
    }
    let shift = bucket / SUB - 1;
    (((SUB + bucket % SUB) as u64 + 1) << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_duration_lies_within_its_bucket() {
        for nanoseconds in (0..100_000).chain([1 << 30, (1 << 36) + 12_345]) {
            let at = bucket(nanoseconds);
            assert!(nanoseconds <= upper(at), "{nanoseconds}");
            assert!(at == 0 || nanoseconds > upper(at - 1), "{nanoseconds}");
        }
    }

    #[test]
    fn quantiles_are_within_one_part_in_thirty_two() {
        let mut histogram = Histogram::default();
        (1..=1000).for_each(|n| histogram.record(n));
        for (share, exact) in [(0.5, 500), (0.99, 990), (1.0, 1000)] {
            let got = histogram.quantile(share);
            assert!(got >= exact && got <= exact + exact / 32 + 1, "{share}: {got}");
        }
        assert_eq!(histogram.max(), 1000);
        assert_eq!(histogram.total(), 1000);
    }
}
