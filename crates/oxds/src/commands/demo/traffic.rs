//! Traffic of the demo: one client per service, which calls at a steady rate.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use oxds_channel::{XdsChannel, code_name};
use oxds_client::ClientPool;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};
use tonic::Code;

use super::plan::{METHOD, TrafficPlan};
use super::tally::Tally;
use crate::exit::Failure;
use crate::unary::Method;

/// Time between two batches. With [`BATCH`] it makes 1,000 calls per second and service: enough for
/// stable shares within seconds, and little CPU.
const EVERY: Duration = Duration::from_millis(10);
/// Calls per batch.
const BATCH: u32 = 10;
/// Deadline of each call.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The callers, one per service, and their counts.
#[derive(Debug)]
pub(super) struct Traffic {
    clients: ClientPool,
    method: Arc<Method>,
    tally: Arc<Mutex<Tally>>,
    callers: BTreeMap<Arc<str>, Caller>,
}

/// Task that calls one service; ends when dropped.
#[derive(Debug)]
struct Caller(JoinHandle<()>);

impl Drop for Caller {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Traffic {
    pub(super) fn new(clients: ClientPool) -> Result<Self, Failure> {
        let method = Method::new(METHOD, b"", TIMEOUT).map_err(Failure::negative)?;
        Ok(Self {
            clients,
            method: Arc::new(method),
            tally: Arc::new(Mutex::new(Tally::new(Instant::now()))),
            callers: BTreeMap::new(),
        })
    }

    /// Returns the counts so far.
    pub(super) fn tally(&self) -> MutexGuard<'_, Tally> {
        lock(&self.tally)
    }

    /// Starts and stops callers, so that exactly the services of the plan are called.
    pub(super) fn follow(&mut self, plan: &TrafficPlan) -> Result<(), Failure> {
        self.callers
            .retain(|name, _| plan.services.iter().any(|service| service.name == *name));
        for service in &plan.services {
            if !self.callers.contains_key(&service.name) {
                let caller = self.start(&service.name)?;
                self.callers.insert(Arc::clone(&service.name), caller);
            }
        }
        Ok(())
    }

    fn start(&self, name: &Arc<str>) -> Result<Caller, Failure> {
        let channel = XdsChannel::builder(format!("xds:///{name}"))
            .clients(self.clients.clone())
            .report_picks(true)
            .build()
            .map_err(Failure::negative)?;
        let (name, method, tally) = (
            Arc::clone(name),
            Arc::clone(&self.method),
            Arc::clone(&self.tally),
        );
        Ok(Caller(tokio::spawn(async move {
            let mut ticks = interval(EVERY);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
            loop {
                ticks.tick().await;
                for _ in 0..BATCH {
                    let (channel, method) = (channel.clone(), Arc::clone(&method));
                    tokio::spawn(call(channel, method, Arc::clone(&name), Arc::clone(&tally)));
                }
            }
        })))
    }
}

async fn call(channel: XdsChannel, method: Arc<Method>, name: Arc<str>, tally: Arc<Mutex<Tally>>) {
    let began = Instant::now();
    let outcome = method.call(&channel).await;
    let (code, endpoint) = (outcome.status.code(), outcome.endpoint);
    match endpoint {
        Some(endpoint) if code == Code::Ok => {
            lock(&tally).succeeded(&name, endpoint.address, began);
        }
        _ => {
            let reason = format!("{}: {}", code_name(code), outcome.status.message());
            lock(&tally).failed(&name, Instant::now(), reason);
        }
    }
}

fn lock(tally: &Mutex<Tally>) -> MutexGuard<'_, Tally> {
    // Each count changes in one step, so a panic of another thread leaves them valid.
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}
