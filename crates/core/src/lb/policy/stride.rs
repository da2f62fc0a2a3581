//! Static stride scheduler: children in proportion to their weights, without state but a counter (gRFC A58).
//!
//! A sequence number stands for a child and a generation, which is a round over all children. A child of weight w is
//! picked in w of 65,535 generations, evenly spread, and skipped in the others.

use std::sync::atomic::{AtomicU32, Ordering};

use super::view::Pick;

const MAX_WEIGHT: u16 = u16::MAX;

/// Ratio to the mean above which weights are reduced, so that a pick takes few rounds (gRFC A58).
const MAX_RATIO: f64 = 10.0;

/// Ratio to the mean below which weights are raised, so that no child is skipped for thousands of picks.
const MIN_RATIO: f64 = 0.01;

/// Ready children with their weights; at least two.
#[derive(Debug)]
pub(super) struct StridePicker {
    /// Children, each with its weight, of which the largest is [`MAX_WEIGHT`].
    ready: Box<[(u32, u16)]>,
    sequence: AtomicU32,
}

impl StridePicker {
    /// Makes a scheduler of children with their weights; zero stands for an unknown weight. Returns `None` if fewer
    /// than two children have a weight: then the children are picked in turn (gRFC A58).
    pub(super) fn new(children: &[(u32, f32)], random: u64) -> Option<Self> {
        let weights = || {
            let weights = children.iter().map(|(_, weight)| f64::from(*weight));
            weights.filter(|weight| *weight > 0.0)
        };
        let known = weights().count();
        if known < 2 {
            return None;
        }
        let mean = weights().sum::<f64>() / known as f64;
        let most = weights().fold(0.0, f64::max).min(mean * MAX_RATIO);
        let scaled = |weight: f64| (weight.min(most) / most * f64::from(MAX_WEIGHT)).round() as u16;
        let lowest = scaled(mean * MIN_RATIO).max(1);
        let ready = children.iter().map(|(child, weight)| match *weight {
            // gRFC A58: an endpoint without a weight gets the mean.
            weight if weight <= 0.0 => (*child, scaled(mean)),
            weight => (*child, scaled(f64::from(weight)).max(lowest)),
        });
        Some(Self {
            ready: ready.collect(),
            sequence: AtomicU32::new(random as u32),
        })
    }

    /// Returns the scaled weights, for the status.
    pub(super) fn weights(&self) -> impl Iterator<Item = (u32, u16)> {
        self.ready.iter().copied()
    }

    pub(super) fn pick(&self) -> Pick {
        let max = u64::from(MAX_WEIGHT);
        loop {
            // Relaxed: only the number of picks matters, not their order.
            let sequence = u64::from(self.sequence.fetch_add(1, Ordering::Relaxed));
            let count = self.ready.len() as u64;
            let (generation, index) = (sequence / count, sequence % count);
            let (child, weight) = self.ready[index as usize];
            // The offset keeps neighbours of equal weight from being skipped in the same generation.
            let offset = index * (max / 2);
            // The child with the largest weight is never skipped, so the loop ends within one round.
            if (u64::from(weight) * generation + offset) % max >= max - u64::from(weight) {
                return Pick::Child(child as usize);
            }
        }
    }
}
