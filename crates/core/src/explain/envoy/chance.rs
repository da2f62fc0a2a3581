//! Shares of requests, where one random number decides all.
//!
//! Envoy draws one random number per request. A route with `runtime_fraction` takes it if its remainder by the
//! denominator is below the numerator, and a weighted cluster by its remainder by the sum of the weights. So two routes
//! with 50 % each take the same half, and shares of clusters depend on the routes before.

use super::matcher::Fraction;

/// Random numbers, by their remainders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Remainders {
    modulus: u32,
    left: Vec<u32>,
}

impl Remainders {
    /// All random numbers.
    pub(super) fn all() -> Self {
        Self {
            modulus: 1,
            left: vec![0],
        }
    }

    /// Returns the share of all random numbers.
    pub(super) fn share(&self) -> f64 {
        self.left.len() as f64 / f64::from(self.modulus)
    }

    /// Removes and returns the numbers that a fraction takes.
    pub(super) fn take(&mut self, fraction: Option<Fraction>) -> Self {
        let Some(Fraction {
            numerator,
            denominator,
        }) = fraction
        else {
            let taken = std::mem::take(&mut self.left);
            return Self {
                modulus: self.modulus,
                left: taken,
            };
        };
        self.refine(denominator);
        let is_taken = |number: &u32| number % denominator < numerator;
        let (taken, left) = self.left.iter().partition(|number| is_taken(number));
        self.left = left;
        Self {
            modulus: self.modulus,
            left: taken,
        }
    }

    /// Distinguishes as many remainders as a denominator does. Each denominator divides the next greater one.
    fn refine(&mut self, denominator: u32) {
        if denominator <= self.modulus {
            return;
        }
        let steps = (0..denominator).step_by(self.modulus as usize);
        let refined = steps.flat_map(|step| self.left.iter().map(move |number| number + step));
        self.left = refined.collect();
        self.modulus = denominator;
    }

    /// Returns the share of each of these weights among the numbers. Their sum is 1 if a weight is above zero.
    pub(super) fn split(&self, weights: &[u32]) -> Vec<f64> {
        let total: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
        let modulus = u64::from(self.modulus);
        let common = gcd(modulus, total.max(1));
        // Remainders by two numbers are independent but for their greatest common divisor.
        let mut classes = vec![0_u64; usize::try_from(common).unwrap_or(1)];
        for number in &self.left {
            classes[(u64::from(*number) % common) as usize] += 1;
        }
        // Sums over the first classes, so that a weight costs a look-up, however many classes there are.
        let mut first = Vec::with_capacity(classes.len() + 1);
        first.push(0_u64);
        for count in classes {
            first.push(first.last().copied().unwrap_or_default() + count);
        }
        let all = u128::from(first.last().copied().unwrap_or_default());
        // Pairs of a number of `left` and a number below `end` with the same remainder.
        let pairs = |end: u64| {
            let part = first.get((end % common) as usize).copied();
            u128::from(end / common) * all + u128::from(part.unwrap_or_default())
        };
        let per_class = (total / common).max(1) as f64;
        let mut start = 0;
        let share = |weight: &u32| {
            let (from, to) = (start, start + u64::from(*weight));
            start = to;
            (pairs(to) - pairs(from)) as f64 / per_class / self.left.len().max(1) as f64
        };
        weights.iter().map(share).collect()
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    match b {
        0 => a,
        b => gcd(b, a % b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn percent(numerator: u32) -> Option<Fraction> {
        Some(Fraction {
            numerator,
            denominator: 100,
        })
    }

    /// Given two routes with 50 % each, the second takes what the first has taken already: nothing.
    #[test]
    fn equal_fractions_take_the_same_numbers() {
        let mut left = Remainders::all();
        assert_eq!(left.take(percent(50)).share(), 0.5);
        assert_eq!(left.take(percent(50)).share(), 0.0);
        assert_eq!(left.take(percent(70)).share(), 0.2);
        assert_eq!(left.take(None).share(), 0.3);
        assert_eq!(left.share(), 0.0);
    }

    /// Given a million remainders and a hundred thousand weights whose sum shares all factors with them, then the
    /// shares are those of the weights. A look at each remainder for each weight would be 10^11 steps, and not end.
    #[test]
    fn cost_of_many_weights_is_bounded() {
        let mut left = Remainders::all();
        let most = Fraction {
            numerator: 999_999,
            denominator: 1_000_000,
        };
        let taken = left.take(Some(most));
        let weights = vec![10; 100_000];
        let shares = taken.split(&weights);
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-6);
        assert!((shares[0] - 1e-5).abs() < 1e-9 && shares[99_999] < shares[0]);
        // Greatest weights: no overflow.
        let shares = taken.split(&[u32::MAX; 4]);
        assert!(shares.iter().all(|share| (share - 0.25).abs() < 1e-6));
    }

    /// Counts what is calculated, over all random numbers below the least common multiple.
    #[test]
    fn shares_equal_those_of_all_numbers() {
        let weights = [30, 50, 40];
        let fractions = [(7, 100), (250, 10_000), (60, 100)];
        let mut left = Remainders::all();
        let mut shares = Vec::new();
        for (numerator, denominator) in fractions {
            let taken = left.take(Some(Fraction {
                numerator,
                denominator,
            }));
            let split = taken.split(&weights).into_iter();
            shares.push(split.map(|one| one * taken.share()).collect::<Vec<_>>());
        }
        let all = 30_000_u64;
        let mut counted = vec![vec![0.0; 3]; 3];
        for random in 0..all {
            let mut routes = fractions.iter();
            let route = routes.position(|(n, d)| random % u64::from(*d) < u64::from(*n));
            let at = random % 120;
            let cluster = [30, 80, 120].iter().position(|end| at < *end).unwrap();
            if let Some(route) = route {
                counted[route][cluster] += 1.0 / all as f64;
            }
        }
        for (own, real) in shares.iter().flatten().zip(counted.iter().flatten()) {
            assert!((own - real).abs() < 1e-9, "{shares:?} {counted:?}");
        }
    }
}
