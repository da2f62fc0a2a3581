//! Starts the programs and calls them.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Output, Stdio};
use std::time::Duration;

use oxds_interop_xds::wire::Connection;
use prost::Message;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tonic::{Request, Status};

pub(crate) const CLIENT: &str = env!("CARGO_BIN_EXE_xds-interop-client");
pub(crate) const SERVER: &str = env!("CARGO_BIN_EXE_xds-interop-server");
/// Deadline of everything that must happen.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// A program that runs until this is dropped.
pub(crate) struct Program {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Program {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Rest of the next line with this prefix.
    pub(crate) async fn line(&mut self, prefix: &str) -> String {
        let found = async {
            loop {
                let line = self.lines.next_line().await.unwrap().expect(prefix);
                if let Some(rest) = line.strip_prefix(prefix) {
                    return rest.to_owned();
                }
            }
        };
        tokio::time::timeout(SOON, found).await.expect(prefix)
    }

    /// A port that the program prints, on loopback.
    pub(crate) async fn address(&mut self, prefix: &str) -> SocketAddr {
        let port: u16 = self.line(prefix).await.parse().unwrap();
        (Ipv4Addr::LOCALHOST, port).into()
    }

    /// Sends SIGINT, as Ctrl-C does.
    pub(crate) async fn interrupt(&self) {
        let id = self.child.id().unwrap().to_string();
        let sent = Command::new("kill").args(["-INT", &id]).status().await;
        assert!(sent.unwrap().success());
    }

    /// Waits until the program ends by itself.
    pub(crate) async fn end(mut self) -> std::process::ExitStatus {
        let ended = tokio::time::timeout(SOON, self.child.wait()).await;
        ended.expect("it ends").unwrap()
    }
}

/// Runs a program that should end at once.
pub(crate) async fn run(program: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_remove("GRPC_XDS_BOOTSTRAP")
        .env_remove("GRPC_XDS_BOOTSTRAP_CONFIG")
        .kill_on_drop(true);
    let output = tokio::time::timeout(SOON, command.output()).await;
    output.expect("it ends").unwrap()
}

/// Starts `xds-interop-server` on its own port: the program and its address.
pub(crate) async fn server(arguments: &[&str]) -> (Program, SocketAddr) {
    let mut command = Command::new(SERVER);
    command.arg("--port=0").args(arguments);
    let mut program = Program::start(command);
    let address = program.address("port ").await;
    (program, address)
}

/// Makes one call with metadata; returns the response and its headers.
pub(crate) async fn call<Q, A>(
    connection: &Connection,
    path: &'static str,
    message: Q,
    metadata: &[(&'static str, &str)],
) -> Result<tonic::Response<A>, Status>
where
    Q: Message + 'static,
    A: Message + Default + 'static,
{
    let mut request = Request::new(message);
    for (key, value) in metadata {
        request.metadata_mut().append(*key, value.parse().unwrap());
    }
    let answer = connection.call(path, request);
    tokio::time::timeout(SOON, answer).await.expect("an answer")
}
