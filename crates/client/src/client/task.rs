//! Runs the client's machine: one task per server. No decision about the protocol is made here.

use std::collections::HashMap;
use std::sync::Arc;

use oxds_core::ads::{Client, Event, Transmit};
use oxds_core::time::Instant;
use oxds_types::Kind;
use tokio::sync::mpsc;

use super::mailbox::Mailbox;
use super::stream::{AdsStream, Io};
use crate::bootstrap::Server;
use crate::random::random;

/// What handles ask of the task.
#[derive(Debug)]
pub(super) enum Command {
    Watch(Kind, Arc<str>, Arc<Mailbox>),
    Unwatch(Kind, Arc<str>, Arc<Mailbox>),
}

pub(super) struct Task {
    server: Server,
    machine: Client,
    stream: AdsStream,
    commands: mpsc::UnboundedReceiver<Command>,
    watchers: HashMap<(Kind, Arc<str>), Vec<Arc<Mailbox>>>,
    /// The machine's clock starts here.
    epoch: tokio::time::Instant,
}

impl Task {
    pub(super) fn new(
        server: Server,
        machine: Client,
        commands: mpsc::UnboundedReceiver<Command>,
    ) -> Self {
        Self {
            server,
            machine,
            stream: AdsStream::Closed,
            commands,
            watchers: HashMap::new(),
            epoch: tokio::time::Instant::now(),
        }
    }

    /// Runs until the last handle is dropped; its socket is closed then.
    pub(super) async fn run(mut self) {
        loop {
            self.settle();
            let timeout = self
                .machine
                .poll_timeout()
                .map(|at| self.epoch + at.since_epoch());
            tokio::select! {
                command = self.commands.recv() => match command {
                    Some(command) => self.obey(command),
                    None => return,
                },
                io = self.stream.next(&self.server) => self.take_in(io),
                () = sleep_until(timeout) => self.machine.handle_timeout(self.now()),
            }
        }
    }

    fn now(&self) -> Instant {
        Instant::from_epoch(self.epoch.elapsed())
    }

    fn obey(&mut self, first: Command) {
        let mut next = Some(first);
        // What was asked at once goes out in one request (C-77).
        while let Some(command) = next {
            match command {
                Command::Watch(kind, name, mailbox) => {
                    for event in self.machine.watch(&kind, &name) {
                        mailbox.put(event);
                    }
                    self.watchers.entry((kind, name)).or_default().push(mailbox);
                }
                Command::Unwatch(kind, name, mailbox) => self.unwatch(kind, name, &mailbox),
            }
            next = self.commands.try_recv().ok();
        }
    }

    fn unwatch(&mut self, kind: Kind, name: Arc<str>, mailbox: &Arc<Mailbox>) {
        let key = (kind, name);
        let Some(watchers) = self.watchers.get_mut(&key) else {
            return;
        };
        let Some(index) = watchers
            .iter()
            .position(|watcher| Arc::ptr_eq(watcher, mailbox))
        else {
            return;
        };
        watchers.swap_remove(index);
        if watchers.is_empty() {
            self.watchers.remove(&key);
        }
        self.machine.unwatch(&key.0, &key.1);
    }

    fn take_in(&mut self, io: Io) {
        match io {
            Io::Opened => self.machine.handle_opened(),
            Io::Response(response) => {
                tracing::trace!(target: "oxds::ads", server = %self.server.uri, ?response, "response");
                self.machine.handle_response(self.now(), response);
            }
            Io::Closed(cause) => {
                tracing::info!(target: "oxds::ads", server = %self.server.uri, cause, "stream closed");
                self.machine.handle_closed(self.now(), &cause, random());
            }
        }
    }

    fn settle(&mut self) {
        while let Some(transmit) = self.machine.poll_transmit(self.now()) {
            match transmit {
                Transmit::Open => self.stream = AdsStream::open(&self.server),
                Transmit::Request(request) => {
                    tracing::trace!(target: "oxds::ads", server = %self.server.uri, ?request, "request");
                    if let Some(detail) = &request.error_detail {
                        tracing::warn!(target: "oxds::ads", server = %self.server.uri, reason = detail.message, "rejected a response");
                    }
                    self.stream.write(*request);
                }
                Transmit::Close => self.stream = AdsStream::Closed,
            }
        }
        while let Some(event) = self.machine.poll_event() {
            self.tell(&event);
        }
    }

    fn tell(&self, event: &Event) {
        let (kind, name) = match event {
            Event::Changed { kind, name, .. } | Event::Ambient { kind, name, .. } => (kind, name),
            Event::DeletionIgnored { kind, name } => {
                tracing::warn!(target: "oxds::ads", %kind, name = %name, "the server deleted a resource that stays in use");
                return;
            }
        };
        let watchers = self.watchers.get(&(kind.clone(), Arc::clone(name)));
        for mailbox in watchers.into_iter().flatten() {
            mailbox.put(event.clone());
        }
    }
}

/// Watchers that outlive the task learn that no more will come, those that it has not heard of yet included.
impl Drop for Task {
    fn drop(&mut self) {
        self.commands.close();
        while let Ok(command) = self.commands.try_recv() {
            if let Command::Watch(_, _, mailbox) = command {
                mailbox.close();
            }
        }
        for mailbox in self.watchers.values().flatten() {
            mailbox.close();
        }
    }
}

async fn sleep_until(at: Option<tokio::time::Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
