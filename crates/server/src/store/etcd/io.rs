//! Connections, reads and watches: a task each, whose results are inputs of the machine.

use std::future::Future;
use std::time::Duration;

use oxds_etcd::follower::{ConnectionId, FollowerTransmit, RequestId, StreamId};
use oxds_types::etcd::{
    RangeRequest, RangeResponse, TxnRequest, WatchCreateRequest, WatchProgressRequest,
    WatchRequestUnion, WatchResponse,
};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tracing::debug;

use super::client::{ClientOptions, Endpoints, EtcdClient, EtcdError, Members};
use super::options::random;

/// Inputs that wait for the machine. Then the watch stops reading, and etcd merges what it has to send (G-23).
const INPUTS: usize = 16;

/// Result of a task.
pub(super) enum Input {
    Connected(ConnectionId, EtcdClient),
    Failed(ConnectionId, EtcdError),
    Range(RequestId, Result<RangeResponse, EtcdError>),
    Watch(StreamId, WatchResponse),
    Closed(StreamId, EtcdError),
}

/// The connection to one member, and everything that goes on over it.
pub(super) struct Io {
    members: Members,
    options: ClientOptions,
    /// Time that a read may take: the machine has limits of its own.
    read_limit: Duration,
    inputs: mpsc::Sender<Input>,
    connection: Option<ConnectionId>,
    /// Client of the connection, also for the writer of the status key.
    client: watch::Sender<Option<EtcdClient>>,
    /// Attempts to connect, and reads.
    tasks: JoinSet<()>,
    watch: Option<Watch>,
}

/// An open watch. It ends when this is dropped.
struct Watch {
    stream: StreamId,
    progress: mpsc::UnboundedSender<()>,
    _task: JoinSet<()>,
}

impl Io {
    /// Starts with a random member, so that replicas share the load. Returns the results of the tasks, too.
    pub(super) fn new(
        endpoints: Endpoints,
        options: ClientOptions,
        read_limit: Duration,
    ) -> (Self, mpsc::Receiver<Input>) {
        let (inputs, results) = mpsc::channel(INPUTS);
        // The low bits are as random as the others.
        let start = usize::from(u16::try_from(random() & 0xffff).unwrap_or_default());
        let io = Self {
            members: Members::new(endpoints, start),
            options,
            read_limit,
            inputs,
            connection: None,
            client: watch::Sender::new(None),
            tasks: JoinSet::new(),
            watch: None,
        };
        (io, results)
    }

    /// Returns the URL of the member that is used or tried.
    pub(super) fn member(&self) -> String {
        self.members.current().to_string()
    }

    /// Returns the client of the connection, while there is one.
    pub(super) fn client(&self) -> watch::Receiver<Option<EtcdClient>> {
        self.client.subscribe()
    }

    /// Keeps the client of a connection. Returns whether the connection is the current one.
    pub(super) fn connected(&mut self, connection: ConnectionId, client: EtcdClient) -> bool {
        let is_current = self.connection == Some(connection);
        if is_current {
            self.client.send_replace(Some(client));
        }
        is_current
    }

    /// Does what the machine wants.
    pub(super) fn perform(&mut self, transmit: FollowerTransmit) {
        while self.tasks.try_join_next().is_some() {}
        match transmit {
            FollowerTransmit::Connect {
                connection,
                another,
            } => self.connect(connection, another),
            FollowerTransmit::Disconnect => self.disconnect(),
            FollowerTransmit::Range { id, request } => self.read(id, request),
            FollowerTransmit::OpenWatch { stream, request } => self.open(stream, request),
            FollowerTransmit::RequestProgress { stream } => {
                let open = self.watch.as_ref().filter(|watch| watch.stream == stream);
                if let Some(watch) = open {
                    // The end of the task is an input.
                    let _ = watch.progress.send(());
                }
            }
            FollowerTransmit::CloseWatch { stream } => {
                self.watch.take_if(|watch| watch.stream == stream);
            }
        }
    }

    fn connect(&mut self, connection: ConnectionId, another: bool) {
        self.disconnect();
        if another {
            self.members.use_next();
        }
        self.connection = Some(connection);
        let (endpoint, options) = (self.members.current().clone(), self.options.clone());
        self.spawn(async move {
            match EtcdClient::connect(&endpoint, &options).await {
                Ok(client) => Input::Connected(connection, client),
                Err(error) => Input::Failed(connection, error),
            }
        });
    }

    fn disconnect(&mut self) {
        self.tasks = JoinSet::new();
        self.watch = None;
        self.client.send_replace(None);
        self.connection = None;
    }

    fn read(&mut self, id: RequestId, request: RangeRequest) {
        // Without a connection the machine does not wait for the answer.
        let Some(client) = self.client.borrow().clone() else {
            return;
        };
        let client = client.with_timeout(self.read_limit);
        self.spawn(async move { Input::Range(id, client.range(request).await) });
    }

    /// Writes a key. The outcome is seen by the watch.
    pub(super) fn write(&mut self, request: TxnRequest) {
        let Some(client) = self.client.borrow().clone() else {
            return;
        };
        self.tasks.spawn(async move {
            if let Err(error) = client.txn(request).await {
                debug!(%error, "rollback key not written");
            }
        });
    }

    fn spawn(&mut self, input: impl Future<Output = Input> + Send + 'static) {
        let inputs = self.inputs.clone();
        self.tasks.spawn(async move {
            // The driver has ended if it fails.
            let _ = inputs.send(input.await).await;
        });
    }

    fn open(&mut self, stream: StreamId, create: WatchCreateRequest) {
        let Some(client) = self.client.borrow().clone() else {
            return;
        };
        let (progress, requests) = mpsc::unbounded_channel();
        let inputs = self.inputs.clone();
        let mut task = JoinSet::new();
        task.spawn(async move {
            let error = follow(&client, stream, create, requests, &inputs).await;
            let _ = inputs.send(Input::Closed(stream, error)).await;
        });
        self.watch = Some(Watch {
            stream,
            progress,
            _task: task,
        });
    }
}

/// Passes the responses of a watch on, until it ends.
async fn follow(
    client: &EtcdClient,
    stream: StreamId,
    create: WatchCreateRequest,
    mut progress: mpsc::UnboundedReceiver<()>,
    inputs: &mpsc::Sender<Input>,
) -> EtcdError {
    let (mut watch, mut response) = match client.watch(create).await {
        Ok(opened) => opened,
        Err(error) => return error,
    };
    loop {
        let _ = inputs.send(Input::Watch(stream, response)).await;
        response = loop {
            tokio::select! {
                response = watch.next() => match response {
                    Ok(response) => break response,
                    Err(error) => return error,
                },
                Some(()) = progress.recv() => {
                    watch.send(WatchRequestUnion::Progress(WatchProgressRequest {}));
                }
            }
        };
    }
}
