//! A straight line through measurements: a fixed cost, and a cost for each unit.

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    fixed: f64,
    for_each: f64,
}

impl Line {
    /// The line that is nearest to the points, by the squares of the vertical distances.
    pub(super) fn through(points: &[(f64, f64)]) -> Self {
        let count = points.len() as f64;
        let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
        let (x, y) = (mean(|point| point.0), mean(|point| point.1));
        let covariance: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
        let variance: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
        let for_each = covariance / variance;
        Self { fixed: y - for_each * x, for_each }
    }

    /// The height at a place.
    pub(super) fn at(self, x: f64) -> f64 {
        self.fixed + self.for_each * x
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_goes_through_its_points_and_between_others() {
        let line = Line::through(&[(1.0, 12.0), (2.0, 14.0), (4.0, 18.0)]);
        assert!((line.at(8.0) - 26.0).abs() < 1e-9, "{line:?}");
        // Of three points that are not on a line, as computed by hand.
        let line = Line::through(&[(0.0, 0.0), (1.0, 3.0), (2.0, 3.0)]);
        assert!((line.at(3.0) - 5.0).abs() < 1e-9, "{line:?}");
    }
}
