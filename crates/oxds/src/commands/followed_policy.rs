//! The policy of `oxds serve` for deprecated fields while it runs: the ledger changes, days pass, the runtime changes.
//!
//! ```text
//!  ledger, today (each 10 s, SIGHUP) ──▶ clock ──┐
//!  runtime (each change) ────────────────────────┴─▶ Policy ──▶ store: reads the files that it concerns
//! ```

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use oxds_server::dir::SetPolicy;
use oxds_types::lifecycle::Policy;
use oxds_types::runtime::{Runtime, Snapshot, Subscription};
use tokio::sync::Notify;
use tracing::{error, info};

use super::args::lifecycle::LifecycleArgs;

/// Time between two looks at the ledger and the date.
const LOOK: Duration = Duration::from_secs(10);

/// Returns the runtime, which shows this part of the program as the reader of the keys.
pub(super) fn reader(runtime: &Runtime) -> Snapshot {
    runtime.reader("deprecated fields")
}

/// The policy of a running server.
#[derive(Debug)]
pub(super) struct FollowedPolicy {
    args: LifecycleArgs,
    current: Arc<Current>,
    now: Notify,
    /// Alive as long as the runtime is followed.
    _runtime: Subscription,
}

#[derive(Debug)]
struct Current {
    policy: Mutex<Policy>,
    store: SetPolicy,
}

impl FollowedPolicy {
    /// Begins to follow the runtime.
    pub(super) fn new(
        args: LifecycleArgs,
        policy: Policy,
        store: SetPolicy,
        runtime: &Runtime,
    ) -> Self {
        let policy = Mutex::new(policy);
        let current = Arc::new(Current { policy, store });
        let followed = (Arc::clone(&current), runtime.clone());
        let subscription = runtime.on_change(move || {
            let (current, runtime) = &followed;
            current.change(|policy| policy.with_runtime(reader(runtime)));
        });
        Self {
            args,
            current,
            now: Notify::new(),
            _runtime: subscription,
        }
    }

    /// Looks at the ledger soon, without waiting for the next turn.
    pub(super) fn look_now(&self) {
        self.now.notify_one();
    }

    /// Follows the ledger and the date; never returns.
    pub(super) async fn follow(&self) {
        let mut reported = None;
        loop {
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                () = self.now.notified() => {}
            }
            // A ledger has some kilobytes, and lies on a local disk.
            match self.args.read_ledger() {
                Ok(ledger) => {
                    reported = None;
                    let clock = self.args.clock(ledger.as_ref());
                    let is_same = *self.current.lock().clock() == clock;
                    if !is_same {
                        info!("phases of deprecated fields changed");
                        self.current.change(|policy| policy.with_clock(clock));
                    }
                }
                Err(error) if reported.as_ref() != Some(&error) => {
                    error!("{error}; the last valid ledger stays in use");
                    reported = Some(error);
                }
                Err(_) => {}
            }
        }
    }
}

impl Current {
    fn change(&self, change: impl FnOnce(&Policy) -> Policy) {
        let mut policy = self.lock();
        *policy = change(&policy);
        // Under the lock: of two changes, the store gets the later one last.
        self.store.set(policy.clone());
    }

    fn lock(&self) -> MutexGuard<'_, Policy> {
        // Values are replaced as a whole.
        self.policy.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
