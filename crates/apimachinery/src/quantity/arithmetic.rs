//! Sums and differences of quantities, in thousandths.

use super::{Amount, Quantity};

/// The power of ten in which quantities are added.
const FINEST: i64 = -3;
/// The most digits of a quantity in thousandths. Larger ones are 10^36 of them, so that no sum overflows.
const MOST_DIGITS: i64 = 36;
const LARGEST: i128 = 10_i128.pow(MOST_DIGITS as u32);

impl Quantity {
    /// The sum, in thousandths: finer amounts are rounded up, away from zero. It is printed with the suffixes of the first
    /// summand, or of the second one if the first is zero. Sums beyond 10^33 are 10^33.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        self.result(other, self.thousandths() + other.thousandths())
    }

    /// The difference, like [`Self::plus`].
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        self.result(other, self.thousandths() - other.thousandths())
    }

    fn result(&self, other: &Self, thousandths: i128) -> Self {
        let format = if self.is_zero() { other.format } else { self.format };
        Self { amount: Amount::of_thousandths(thousandths.clamp(-LARGEST, LARGEST)), format, written: None }
    }

    /// The value in thousandths, rounded up, away from zero, and at most 10^36.
    fn thousandths(&self) -> i128 {
        let mut amount = self.amount.clone();
        amount.round_up(FINEST);
        let value = if amount.digits.is_empty() {
            0
        } else if amount.magnitude() - FINEST > MOST_DIGITS {
            LARGEST
        } else {
            let zeros = u32::try_from(amount.exponent - FINEST).unwrap_or_default();
            let digits =
                amount.digits.iter().rev().fold(0_i128, |value, digit| value * 10 + i128::from(*digit));
            digits * 10_i128.pow(zeros)
        };
        if amount.is_negative { -value } else { value }
    }
}

impl Amount {
    fn of_thousandths(value: i128) -> Self {
        let digits = value.unsigned_abs().to_string().bytes().rev().map(|digit| digit - b'0').collect();
        Self { is_negative: value < 0, digits, exponent: FINEST }.normal()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn quantity(text: &str) -> Quantity {
        Quantity::parse(text).unwrap()
    }

    #[test]
    fn sums_keep_the_suffixes_of_the_first_summand() {
        for (a, b, sum) in [
            ("0", "600Mi", "600Mi"),
            ("600Mi", "400Mi", "1000Mi"),
            ("600Mi", "424Mi", "1Gi"),
            ("400m", "600m", "1"),
            ("1", "250m", "1250m"),
            ("1Gi", "1M", "1074741824"),
            ("1M", "1Gi", "1074741824"),
            ("1n", "1n", "2m"),
            ("20Pi", "1", "22517998136852481"),
        ] {
            assert_eq!(quantity(a).plus(&quantity(b)).to_string(), sum, "{a} + {b}");
        }
        assert_eq!(quantity("1Gi").minus(&quantity("1000Mi")).to_string(), "24Mi");
        assert!(quantity("1").minus(&quantity("1001m")).is_negative());
    }

    #[test]
    fn huge_quantities_stay_huge_and_take_no_time() {
        let huge = quantity("1e2000000000");
        let sum = huge.plus(&huge);
        assert!(sum > quantity("1e30") && sum < huge);
        assert!(sum.plus(&sum) == sum);
        assert!(sum.minus(&huge).is_zero());
    }

    proptest! {
        #[test]
        fn sums_are_those_of_integers(a in -1_000_000_000_000_i64..1_000_000_000_000, b in -1_000_000_000_i64..1_000_000_000) {
            let of = |value: i64| quantity(&format!("{value}m"));
            prop_assert_eq!(of(a).plus(&of(b)), of(a + b));
            prop_assert_eq!(of(a).minus(&of(b)), of(a - b));
        }
    }
}
