//! The demo itself: start, live output, summary, end.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use oxds_client::{Bootstrap, ClientPool};
use oxds_server::{DirStore, Server};
use terminal_size::{Height, terminal_size};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{interval, sleep};

use super::folder;
use super::screen::Screen;
use super::store::{DemoStore, FolderStatus};
use super::table::DemoView;
use super::tally::TICK;
use super::traffic::Traffic;
use super::verdict::Verdict;
use crate::commands::{dir_options, unreadable};
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::signals::StopSignals;
use crate::terminal::Style;

/// A running demo: server, traffic and the status of its folder.
#[derive(Debug)]
pub(super) struct Demo {
    folder: PathBuf,
    /// File with the weights of the traffic split, if the folder is the example.
    edit: Option<PathBuf>,
    grpc: SocketAddr,
    http: SocketAddr,
    folder_status: watch::Receiver<FolderStatus>,
    /// Time of the change that the measurement was last reset for.
    last_change: Option<Instant>,
    traffic: Traffic,
    stop_server: oneshot::Sender<()>,
    server: JoinHandle<()>,
}

impl Demo {
    /// Reads the folder, and starts server, backends and traffic.
    pub(super) async fn start(folder: PathBuf) -> Result<Self, Failure> {
        let store = DirStore::open(&folder, dir_options(false, false));
        let store = store.map_err(|error| unreadable(&error))?;
        let (store, mut folder_status) = DemoStore::new(store);
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = Server::builder()
            .grpc(any)
            .http(any)
            .store(store)
            .bind()
            .await;
        let server = server.map_err(Failure::negative)?;
        let (grpc, http) = (server.grpc_addr(), server.http_addr().unwrap_or(any));
        let (stop_server, stopped) = oneshot::channel();
        let server = tokio::spawn(server.run(async {
            // A dropped sender also stops the server.
            let _ = stopped.await;
        }));
        let read = folder_status.changed().await;
        read.map_err(|_| Failure::negative("server ended before it read the folder"))?;
        check_usable(&folder, &folder_status.borrow())?;

        let bootstrap = Bootstrap::builder(grpc.to_string()).node_id("demo").build();
        let mut traffic = Traffic::new(ClientPool::new(bootstrap.map_err(Failure::negative)?))?;
        traffic.follow(&folder_status.borrow_and_update().plan)?;
        Ok(Self {
            edit: folder::file_to_edit(&folder),
            folder,
            grpc,
            http,
            folder_status,
            last_change: None,
            traffic,
            stop_server,
            server,
        })
    }

    /// Prints the traffic until the time limit, a signal, or the reader of stdout closes it.
    pub(super) async fn watch(
        &mut self,
        output: &mut Output,
        live: bool,
        limit: Option<Duration>,
    ) -> Result<(), Failure> {
        let (mut stop, mut screen) = (StopSignals::listen()?, Screen::default());
        let mut ticks = interval(TICK);
        let end = sleep(limit.unwrap_or(Duration::MAX));
        tokio::pin!(end);
        if !live {
            output.write(&self.view(Style::PLAIN, |view| view.introduction()))?;
        }
        while !output.is_closed() {
            tokio::select! {
                () = &mut end => break,
                _ = stop.next() => break,
                Ok(()) = self.folder_status.changed() => {
                    self.handle_folder_change()?;
                    if !live {
                        output.write(&self.view(Style::PLAIN, |view| view.configuration()))?;
                    }
                }
                _ = ticks.tick() => {
                    self.traffic.tally().tick();
                    if live {
                        let style = Style::for_terminal();
                        let text = self.table(style);
                        output.write(&screen.draw(&text, rows()))?;
                    }
                }
            }
        }
        if live && limit.is_some() {
            // Clears the live table, which the summary replaces.
            output.write(&screen.draw("", rows()))?;
        }
        Ok(())
    }

    /// Follows the new plan, and resets the measurement if a served resource changed.
    fn handle_folder_change(&mut self) -> Result<(), Failure> {
        let status = self.folder_status.borrow_and_update();
        let change = status.changed.as_ref().map(|(at, _)| *at);
        if change != self.last_change {
            self.last_change = change;
            self.traffic.tally().change(Instant::now());
        }
        self.traffic.follow(&status.plan)
    }

    /// Returns the whole live table.
    fn table(&self, style: Style) -> String {
        self.view(style, |view| {
            view.introduction() + &view.services() + &view.configuration()
        })
    }

    fn view(&self, style: Style, render: impl FnOnce(DemoView<'_>) -> String) -> String {
        render(DemoView {
            folder: &self.folder,
            edit: self.edit.as_deref(),
            grpc: self.grpc,
            http: self.http,
            folder_status: &self.folder_status.borrow(),
            tally: &self.traffic.tally(),
            now: Instant::now(),
            style,
        })
    }

    /// Prints the summary. Returns success if the traffic matches the configuration.
    pub(super) fn conclude(&self, output: &mut Output, live: bool) -> Result<Exit, Failure> {
        let style = if live {
            Style::for_terminal()
        } else {
            Style::PLAIN
        };
        output.write(&if live {
            self.table(style)
        } else {
            self.view(style, |view| view.services() + &view.configuration())
        })?;
        let verdict = Verdict::of(&self.folder_status.borrow().plan, &self.traffic.tally());
        output.write(&format!("\n{}", verdict.text(style)))?;
        Ok(if verdict.is_good() {
            Exit::Success
        } else {
            Exit::Negative
        })
    }

    /// Stops the traffic, then the server.
    pub(super) async fn end(self) {
        drop(self.traffic);
        // The server runs until this signal, so the send does not fail.
        let _ = self.stop_server.send(());
        let _ = self.server.await;
    }
}

/// Returns the height of the terminal.
fn rows() -> Option<usize> {
    let (_, Height(rows)) = terminal_size()?;
    Some(usize::from(rows))
}

/// Fails if an endpoint has no backend, or if the folder has no service to call.
fn check_usable(folder: &Path, status: &FolderStatus) -> Result<(), Failure> {
    if let Some((address, reason)) = status.without_backend.first_key_value() {
        let hint = format!(
            "change the port of the endpoint in {}, or stop the program that listens on {address}",
            folder.display()
        );
        return Err(Failure::negative(format_args!("{address}: {reason}")).hint(hint));
    }
    if status.plan.services.is_empty() {
        let findings: String = status
            .findings
            .iter()
            .map(|finding| format!("\n  {finding}"))
            .collect();
        let folder = folder.display();
        return Err(Failure::usage(format_args!(
            "no service to call in {folder}: expected a listener with an `api_listener`{findings}"
        )));
    }
    Ok(())
}
