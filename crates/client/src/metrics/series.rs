//! Series that RPCs write: found by name without a lock, and bound to the recorder at their first use.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use tonic::Code;

use super::instrument::Instrument;
use super::recorder::{Recorder, Series};

/// Number of gRPC status codes.
const CODES: usize = 17;

/// Values by name, each made once. Names are never removed: they are those of methods, clusters and localities.
#[derive(Debug)]
pub struct ByName<V>(ArcSwap<HashMap<Box<str>, Arc<V>>>);

/// A series that is bound at its first use, so that the recorder does not get series without measurements.
#[derive(Debug, Default)]
pub struct LazySeries(OnceLock<Series>);

/// Values by status code, each made once.
#[derive(Debug)]
pub struct ByCode<V>([OnceLock<Box<V>>; CODES]);

impl<V> Default for ByName<V> {
    fn default() -> Self {
        Self(ArcSwap::default())
    }
}

impl<V> Default for ByCode<V> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| OnceLock::new()))
    }
}

impl<V> ByName<V> {
    /// Returns the value of a name, if it was made.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<Arc<V>> {
        self.0.load().get(name).map(Arc::clone)
    }

    /// Returns the value of a name. The first call for a name makes it.
    pub fn get(&self, name: &str, make: impl FnOnce() -> V) -> Arc<V> {
        if let Some(known) = self.0.load().get(name) {
            return Arc::clone(known);
        }
        let made = Arc::new(make());
        let before = self.0.rcu(|all| {
            let mut all = HashMap::clone(all);
            all.entry(name.into()).or_insert_with(|| Arc::clone(&made));
            all
        });
        // Another RPC may have made it at the same time.
        before.get(name).map_or(made, Arc::clone)
    }
}

impl<V> ByCode<V> {
    /// Returns the value of a code. The first call for a code makes it.
    pub fn get(&self, code: Code, make: impl FnOnce() -> V) -> &V {
        let index = usize::try_from(i32::from(code)).unwrap_or_default();
        // Codes of tonic are below `CODES`.
        self.0[index.min(CODES - 1)].get_or_init(|| Box::new(make()))
    }
}

impl LazySeries {
    /// Returns the series, bound with these labels at the first call.
    pub fn get(
        &self,
        recorder: &Arc<dyn Recorder>,
        instrument: &'static Instrument,
        labels: &[&str],
    ) -> &Series {
        self.0
            .get_or_init(|| Series::new(recorder, instrument, labels))
    }
}
