//! The runtime of a program: the current snapshot, its changes and subscriptions.
//!
//! ```text
//!  replace, modify ──► next Snapshot ──► ArcSwap ──► snapshot, reader
//!  failed ───► error of the layer └────► subscriptions
//! ```
//! The next snapshot shares all layers that do not change with the one before.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use arc_swap::ArcSwap;

use super::layer::{Layer, LayerError, Source};
use super::readers::Readers;
use super::snapshot::Snapshot;
use super::value::Value;

/// The layers of a program, which may change at any time. Clones share one state. The default has no layers.
#[derive(Clone, Default)]
pub struct Runtime(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// Errors of layers whose last valid content stays in use. Held while the snapshot is replaced, so that no change
    /// is lost.
    errors: Mutex<BTreeMap<String, String>>,
    current: ArcSwap<Snapshot>,
    readers: Arc<Readers>,
    subscribers: Mutex<Vec<Weak<Notify>>>,
    load_success: AtomicU64,
    load_error: AtomicU64,
}

type Notify = dyn Fn() + Send + Sync;

/// A subscription to changes, until dropped.
#[must_use = "a dropped subscription ends"]
pub struct Subscription {
    _notify: Arc<Notify>,
}

/// A layer that the runtime does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown layer {name:?}: expected one of {}", known.join(", "))]
#[non_exhaustive]
pub struct UnknownLayer {
    /// Name of the layer.
    pub name: String,
    /// Names of the layers that exist.
    pub known: Vec<String>,
}

/// A change that the admin layer cannot have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModifyError {
    /// The runtime has no admin layer.
    #[error("no admin layer: the runtime cannot be modified")]
    NoAdminLayer,
    /// A key or value is invalid. No change of the request was made.
    #[error(transparent)]
    Layer(#[from] LayerError),
}

/// Numbers about a runtime, with the names of Envoy's `runtime.*` statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counts {
    /// Loads of a layer that succeeded.
    pub load_success: u64,
    /// Loads of a layer that failed.
    pub load_error: u64,
    /// Keys that are set.
    pub num_keys: usize,
    /// Layers.
    pub num_layers: usize,
    /// Keys that the admin layer sets.
    pub admin_overrides: usize,
}

/// A layer and its last error.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LayerState {
    /// Content in use.
    pub layer: Layer,
    /// Error of the last load; the content is older then.
    pub error: Option<String>,
}

impl Runtime {
    /// Returns a runtime of these layers; later ones win.
    ///
    /// # Errors
    /// Two layers have the same name, which is the error.
    pub fn new(layers: Vec<Layer>) -> Result<Self, String> {
        for (index, layer) in layers.iter().enumerate() {
            let mut before = layers.iter().take(index);
            if before.any(|other| other.name() == layer.name()) {
                return Err(layer.name().to_owned());
            }
        }
        let runtime = Self::default();
        let snapshot = Snapshot::from_layers(layers);
        runtime.0.current.store(Arc::new(snapshot));
        Ok(runtime)
    }

    /// Returns the current snapshot. Its reads are not recorded.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::clone(&self.0.current.load())
    }

    /// Returns the current snapshot for a part of the program, which is shown as the reader of the keys that it reads.
    #[must_use]
    pub fn reader(&self, name: &'static str) -> Snapshot {
        let readers = Arc::clone(&self.0.readers);
        self.0.current.load().read_by(name, readers)
    }

    /// Returns the readers of all keys.
    #[must_use]
    pub fn readers(&self) -> &Readers {
        &self.0.readers
    }

    /// Replaces the content of the layer of the same name. Returns whether values changed. Counts as a successful load.
    ///
    /// # Errors
    /// The runtime has no such layer.
    pub fn replace(&self, layer: Layer) -> Result<bool, UnknownLayer> {
        let changed = {
            let mut errors = lock(&self.0.errors);
            let snapshot = self.0.current.load();
            let index = index(&snapshot, layer.name())?;
            errors.remove(layer.name());
            // The layer was read as a whole, so it may be compared as a whole.
            let before = snapshot.layers().get(index).cloned();
            let before = before.filter(|before| before.values() != layer.values());
            if let Some(before) = &before {
                let after = layer.clone();
                let (old, new) = (before.values(), after.values());
                let gone = old.keys().filter(|key| !new.contains_key(*key));
                let next = snapshot.with_layer(index, layer, new.keys().chain(gone));
                self.0.current.store(Arc::new(next));
            }
            before.is_some()
        };
        self.0.load_success.fetch_add(1, Relaxed);
        if changed {
            self.0.notify();
        }
        Ok(changed)
    }

    /// Records that a layer could not be loaded. Its content stays. Returns whether the error differs from the last
    /// one.
    pub fn failed(&self, layer: &str, error: impl fmt::Display) -> bool {
        self.0.load_error.fetch_add(1, Relaxed);
        let error = error.to_string();
        let before = lock(&self.0.errors).insert(layer.to_owned(), error.clone());
        before != Some(error)
    }

    /// Sets keys of the admin layer, or removes them (`None`): all of them, or none.
    ///
    /// # Errors
    /// The runtime has no admin layer, or a value is invalid.
    pub fn modify(
        &self,
        changes: impl IntoIterator<Item = (String, Option<Value>)>,
    ) -> Result<(), ModifyError> {
        {
            let _errors = lock(&self.0.errors);
            let snapshot = self.0.current.load();
            let index = admin(&snapshot).ok_or(ModifyError::NoAdminLayer)?;
            let mut layer = snapshot.layers()[index].clone();
            let mut touched = BTreeSet::new();
            for (key, value) in changes {
                touched.insert(key.clone());
                match value {
                    Some(value) => layer.set(key, value)?,
                    None => layer.remove(&key),
                }
            }
            let next = snapshot.with_layer(index, layer, touched.iter());
            self.0.current.store(Arc::new(next));
        }
        self.0.load_success.fetch_add(1, Relaxed);
        self.0.notify();
        Ok(())
    }

    /// Checks that there is a layer of this name.
    ///
    /// # Errors
    /// The runtime has no layer of this name.
    pub fn knows(&self, layer: &str) -> Result<(), UnknownLayer> {
        index(&self.0.current.load(), layer).map(drop)
    }

    /// Whether there is an admin layer.
    #[must_use]
    pub fn is_modifiable(&self) -> bool {
        admin(&self.0.current.load()).is_some()
    }

    /// Calls `notify` after every change of a value, on the thread that changes it, until the subscription is dropped.
    /// It must not block.
    pub fn on_change(&self, notify: impl Fn() + Send + Sync + 'static) -> Subscription {
        let notify: Arc<Notify> = Arc::new(notify);
        let mut subscribers = lock(&self.0.subscribers);
        subscribers.retain(|subscriber| subscriber.strong_count() > 0);
        subscribers.push(Arc::downgrade(&notify));
        Subscription { _notify: notify }
    }

    /// Returns the layers with their errors; later ones win.
    #[must_use]
    pub fn layers(&self) -> Vec<LayerState> {
        let errors = lock(&self.0.errors);
        let snapshot = self.0.current.load();
        let layers = snapshot.layers().iter();
        let with_error = layers.map(|layer| LayerState {
            error: errors.get(layer.name()).cloned(),
            layer: layer.clone(),
        });
        with_error.collect()
    }

    /// Returns the numbers for metrics.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let snapshot = self.0.current.load();
        let layers = snapshot.layers();
        let admin = layers
            .iter()
            .filter(|layer| *layer.source() == Source::Admin);
        Counts {
            load_success: self.0.load_success.load(Relaxed),
            load_error: self.0.load_error.load(Relaxed),
            num_keys: snapshot.len(),
            num_layers: layers.len(),
            admin_overrides: admin.map(|layer| layer.values().len()).sum(),
        }
    }
}

impl Shared {
    /// Calls the subscribers, outside of all locks: they may read the runtime.
    fn notify(&self) {
        let subscribers: Vec<_> = lock(&self.subscribers)
            .iter()
            .filter_map(Weak::upgrade)
            .collect();
        for notify in subscribers {
            notify();
        }
    }
}

/// Returns the place of the layer of this name.
fn index(snapshot: &Snapshot, name: &str) -> Result<usize, UnknownLayer> {
    let layers = snapshot.layers();
    let found = layers.iter().position(|layer| layer.name() == name);
    found.ok_or_else(|| UnknownLayer {
        name: name.to_owned(),
        known: layers.iter().map(|layer| layer.name().to_owned()).collect(),
    })
}

fn admin(snapshot: &Snapshot) -> Option<usize> {
    let mut layers = snapshot.layers().iter();
    layers.position(|layer| *layer.source() == Source::Admin)
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime")
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").finish_non_exhaustive()
    }
}
