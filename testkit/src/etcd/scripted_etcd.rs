//! The handle of a test on a member.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use oxds_types::etcd::{DeleteRangeRequest, KeyValue, PutRequest, TxnRequest, TxnResponse};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until, timeout};
use tonic::Status;

use super::cluster::{Cluster, Data};
use super::faults::{CallFault, Faults, WatchFault};
use super::listen::serve;
use super::member::{Activity, Member};
use super::users::User;
use crate::{Missed, SOON};

/// A member of a scripted etcd. It stops when dropped, as a killed process does.
///
/// Leases end by tokio's clock.
#[derive(Debug)]
pub struct ScriptedEtcd {
    address: SocketAddr,
    member: Arc<Member>,
    running: Mutex<Option<AbortHandle>>,
    /// Shared by all members of the cluster.
    _leases: Arc<LeaseTask>,
}

/// Everything that an etcd has stored.
#[derive(Debug, Clone)]
pub struct Backup(Data);

#[derive(Debug)]
struct LeaseTask(AbortHandle);

impl ScriptedEtcd {
    /// Starts the only member of a new cluster, on a free port of the loopback interface.
    ///
    /// # Errors
    /// When no port is free.
    ///
    /// # Panics
    /// If called outside a tokio runtime.
    pub async fn start() -> io::Result<Self> {
        let cluster = Arc::new(Cluster::new(0xc1));
        let leases = tokio::spawn(end_leases(Arc::clone(&cluster))).abort_handle();
        Self::start_member(0xa1, cluster, Arc::new(LeaseTask(leases))).await
    }

    /// Starts another member of the same cluster.
    ///
    /// # Errors
    /// When no port is free.
    ///
    /// # Panics
    /// If called outside a tokio runtime.
    pub async fn join(&self) -> io::Result<Self> {
        let cluster = Arc::clone(&self.member.cluster);
        Self::start_member(self.member.id + 1, cluster, Arc::clone(&self._leases)).await
    }

    async fn start_member(
        id: u64,
        cluster: Arc<Cluster>,
        leases: Arc<LeaseTask>,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let member = Arc::new(Member::new(id, cluster));
        let running = serve(listener, Arc::clone(&member));
        Ok(Self {
            address,
            member,
            running: Mutex::new(Some(running)),
            _leases: leases,
        })
    }

    /// Address of the member, also while it is stopped.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// URL of the member.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Closes the port and every connection at once, as a crash does.
    pub fn kill(&self) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = running.take() {
            running.abort();
        }
    }

    /// Starts the member again on its address, after [`kill`](Self::kill). Its data and faults are as before.
    ///
    /// # Errors
    /// When another program has taken the port.
    pub async fn restart(&self) -> io::Result<()> {
        self.kill();
        self.reach(|activity| activity.connections == 0)
            .await
            .map_err(io::Error::other)?;
        let until = Instant::now() + SOON;
        let listener = loop {
            match TcpListener::bind(self.address).await {
                // The task that was aborted may still have the listener.
                Err(error)
                    if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < until =>
                {
                    tokio::task::yield_now().await;
                }
                bound => break bound?,
            }
        };
        let serving = serve(listener, Arc::clone(&self.member));
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(serving);
        Ok(())
    }

    /// Copies everything that is stored.
    #[must_use]
    pub fn backup(&self) -> Backup {
        Backup(self.member.cluster.data().clone())
    }

    /// Restarts with the data of a backup. Cluster and member have the same ids as before (G-27).
    ///
    /// # Errors
    /// As [`restart`](Self::restart).
    pub async fn restore(&self, backup: &Backup) -> io::Result<()> {
        self.kill();
        self.member.cluster.change(|data| {
            let term = data.term + 1;
            *data = backup.0.clone();
            data.term = term;
        });
        self.restart().await
    }

    /// Restarts as another cluster, without data (G-29).
    ///
    /// # Errors
    /// As [`restart`](Self::restart).
    pub async fn replace_cluster(&self) -> io::Result<()> {
        self.kill();
        self.member.cluster.change(|data| {
            let id = data.id + 1;
            let Backup(empty) = Backup(Cluster::new(id).data().clone());
            *data = empty;
        });
        self.restart().await
    }

    /// Writes a key, and returns the revision. No permission, lease or space is needed.
    pub fn put(&self, key: impl Into<Bytes>, value: impl Into<Bytes>) -> i64 {
        let request = PutRequest {
            key: key.into(),
            value: value.into(),
            ..PutRequest::default()
        };
        self.member.cluster.change(|data| {
            let mut change = data.store.begin();
            change.put(&request);
            change.end();
            data.store.revision()
        })
    }

    /// Deletes a key, and returns the revision.
    pub fn delete(&self, key: impl Into<Bytes>) -> i64 {
        let request = DeleteRangeRequest {
            key: key.into(),
            ..DeleteRangeRequest::default()
        };
        self.member.cluster.change(|data| {
            let mut change = data.store.begin();
            change.delete(&request);
            change.end();
            data.store.revision()
        })
    }

    /// Executes a transaction.
    ///
    /// # Errors
    /// etcd's refusal.
    pub fn txn(&self, request: &TxnRequest) -> Result<TxnResponse, Status> {
        self.member.cluster.change(|data| data.txn(request))
    }

    /// Returns a key with its value.
    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<KeyValue> {
        self.member.cluster.data().store.get(key).cloned()
    }

    /// Returns the revision of the store.
    #[must_use]
    pub fn revision(&self) -> i64 {
        self.member.cluster.data().store.revision()
    }

    /// Discards the history before a revision.
    ///
    /// # Errors
    /// etcd's refusal.
    pub fn compact(&self, revision: i64) -> Result<(), Status> {
        self.member
            .cluster
            .change(|data| data.store.compact(revision))
    }

    /// Raises or clears the alarm NOSPACE.
    pub fn set_full(&self, is_full: bool) {
        self.member.cluster.change(|data| data.is_full = is_full);
    }

    /// Adds or replaces a user. From the first user on, requests need a token.
    pub fn set_user(&self, name: impl Into<String>, user: User) {
        self.member
            .cluster
            .change(|data| data.users.set(name.into(), user));
    }

    /// Makes all tokens invalid. Open watches continue.
    pub fn expire_tokens(&self) {
        self.member
            .cluster
            .change(|data| data.users.expire_tokens());
    }

    /// Makes a lease with a time to live in seconds, and returns its id.
    pub fn grant(&self, ttl: i64) -> i64 {
        let granted = self
            .member
            .cluster
            .change(|data| data.leases.grant(0, ttl, Instant::now()));
        // An id of etcd's choice is free.
        granted.map_or(0, |(id, _)| id)
    }

    /// Ends a lease as if its time had passed, and returns whether it existed.
    pub fn end_lease(&self, id: i64) -> bool {
        self.member.cluster.change(|data| data.end_lease(id))
    }

    /// Breaks the next call of a method, such as `Range`; several faults of a method apply one after the other.
    pub fn break_call(&self, method: impl Into<String>, fault: CallFault) {
        self.member.faults().calls.push_back((method.into(), fault));
    }

    /// Breaks the next response with events; several faults apply one after the other.
    pub fn break_watch(&self, fault: WatchFault) {
        self.member.faults().watches.push_back(fault);
    }

    /// Answers this number of calls, and holds those after it: they wait, without effect, for
    /// [`release`](Self::release). If the
    /// client of such a call has disconnected, the call never takes effect. The calls with which a client connects
    /// (`Status`, `Authenticate`) are always answered.
    pub fn hold_after(&self, calls: usize) {
        self.member.faults().calls_left = Some(calls);
    }

    /// Sends the delayed responses, and executes the held calls.
    pub fn release(&self) {
        self.member.faults().calls_left = None;
        self.member.releases.send_modify(|count| *count += 1);
    }

    /// Stops reading and writing on all connections, which stay open, or continues (G-20).
    pub fn set_silent(&self, is_silent: bool) {
        self.member.is_silent.send_replace(is_silent);
    }

    /// Loses the leader, or finds it again.
    pub fn set_leaderless(&self, is_leaderless: bool) {
        self.set(|faults| faults.is_leaderless = is_leaderless);
    }

    /// Becomes a learner, or a full member.
    pub fn set_learner(&self, is_learner: bool) {
        self.set(|faults| faults.is_learner = is_learner);
    }

    /// Answers reads of the latest state as of an older revision, or correctly (G-22).
    pub fn set_stale(&self, revision: Option<i64>) {
        self.set(|faults| faults.stale_at = revision);
    }

    /// Reports another version.
    pub fn set_version(&self, version: impl Into<String>) {
        self.set(|faults| faults.version = version.into());
    }

    /// Leaves out the ids of cluster and member, as kine does (G-33).
    pub fn set_without_ids(&self, has_no_ids: bool) {
        self.set(|faults| faults.has_no_ids = has_no_ids);
    }

    /// Answers a watch with an expired token by "permission denied", as etcd 3.4 does (etcd#12385).
    pub fn set_denies_expired_tokens(&self, denies: bool) {
        self.set(|faults| faults.denies_expired_tokens = denies);
    }

    /// Reports these sizes of the database, in bytes: file, in use, quota.
    pub fn set_sizes(&self, sizes: [i64; 3]) {
        self.set(|faults| faults.sizes = sizes);
    }

    fn set(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut self.member.faults());
        // Watches look at the faults when they are woken.
        self.member.cluster.change(|_| ());
    }

    /// Returns the calls and connections of clients.
    #[must_use]
    pub fn activity(&self) -> Activity {
        self.member.activity.borrow().clone()
    }

    /// Returns the number of calls of a method since the start.
    #[must_use]
    pub fn calls(&self, method: &str) -> usize {
        let activity = self.member.activity.borrow();
        activity.calls.get(method).copied().unwrap_or(0)
    }

    /// Waits until this holds.
    ///
    /// # Errors
    /// When that does not happen before the deadline.
    pub async fn reach(&self, condition: impl Fn(&Activity) -> bool) -> Result<(), Missed> {
        let mut activity = self.member.activity.subscribe();
        match timeout(SOON, activity.wait_for(condition)).await {
            Ok(_) => Ok(()),
            Err(_) => Err(Missed::Late),
        }
    }
}

impl Drop for ScriptedEtcd {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Drop for LeaseTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Ends leases when their time has passed.
async fn end_leases(cluster: Arc<Cluster>) {
    let mut changes: watch::Receiver<u64> = cluster.changes();
    loop {
        let next = cluster.data().leases.next_end();
        let (id, ends) = next.map_or((0, None), |(id, ends)| (id, Some(ends)));
        tokio::select! {
            () = sleep_until(ends.unwrap_or_else(Instant::now)), if ends.is_some() => {
                cluster.change(|data| data.end_lease(id));
            }
            // The cluster holds the sender, so it is not closed.
            _ = changes.changed() => {}
        }
    }
}
