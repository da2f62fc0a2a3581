//! Helpers that run the binary.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Longest wait of any step.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);

/// Waits until a condition holds, and returns its value. The error is what was found instead.
#[track_caller]
pub(crate) fn until<T>(mut condition: impl FnMut() -> Result<T, String>) -> T {
    let end = Instant::now() + TIMEOUT;
    loop {
        match condition() {
            Ok(value) => return value,
            Err(found) => assert!(Instant::now() < end, "not in time: {found}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Exit code and output of a finished run.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("stdout is UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("stderr is UTF-8"),
        }
    }
}

impl Ran {
    /// Asserts the exit code, and that stdout and stderr together contain each of these texts.
    #[track_caller]
    pub(crate) fn expect(&self, code: i32, texts: &[&str]) -> &Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        for text in texts {
            let all = format!("{}{}", self.stdout, self.stderr);
            assert!(all.contains(text), "no {text:?} in {self:#?}");
        }
        assert!(!self.stderr.contains("panicked"), "{self:#?}");
        self
    }
}

/// Returns a command of the binary, without the variables that it reads.
pub(crate) fn command<S: AsRef<std::ffi::OsStr>>(
    arguments: impl IntoIterator<Item = S>,
) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oxds"));
    command.args(arguments).stdin(Stdio::null());
    for variable in [
        "RUST_LOG",
        "GRPC_XDS_BOOTSTRAP",
        "GRPC_XDS_BOOTSTRAP_CONFIG",
        "NO_COLOR",
        "STATE_DIRECTORY",
    ] {
        command.env_remove(variable);
    }
    command
}

/// Runs the binary to its end.
pub(crate) fn oxds<S: AsRef<std::ffi::OsStr>>(arguments: impl IntoIterator<Item = S>) -> Ran {
    command(arguments).output().expect("the binary runs").into()
}

/// Creates a folder with these files.
pub(crate) fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().expect("below the folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }
    dir
}

/// Returns a cluster as YAML.
pub(crate) fn cluster(name: &str) -> String {
    format!(
        "\"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\nname: {name}\nconnect_timeout: 1s\n"
    )
}

/// The block of docs/cli.md after this command.
pub(crate) fn documented(command: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    let text = fs::read_to_string(path).expect("docs/cli.md");
    let (_, block) = text
        .split_once(&format!("$ {command}\n"))
        .expect("the command");
    let (block, _) = block.split_once("```").expect("the end of the block");
    block.to_owned()
}

/// Returns the path of the example.
pub(crate) fn shop() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/shop")
}

/// A copy of the example with ports of its own, so that tests on one machine do not conflict.
#[derive(Debug)]
pub(crate) struct Shop {
    pub(crate) dir: tempfile::TempDir,
    /// Replacements of the ports 18101, 18102, …
    pub(crate) endpoints: Vec<SocketAddr>,
}

impl Shop {
    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }
}

/// Number of endpoints of the example.
pub(crate) const SHOP_ENDPOINTS: usize = 7;

/// Returns a copy of the example on ports that are free now. Another process may take one of them until they are bound.
pub(crate) fn shop_on_free_ports() -> Shop {
    // All bound at the same time, so that the ports differ; closed when the copy is made.
    let listeners: Vec<_> = (0..SHOP_ENDPOINTS)
        .map(|_| TcpListener::bind("127.0.0.1:0").expect("a free port"))
        .collect();
    let bound = listeners
        .iter()
        .map(|listener| listener.local_addr().expect("bound"));
    shop_at(bound.collect())
}

/// Returns a copy of the example with these endpoints.
pub(crate) fn shop_at(endpoints: Vec<SocketAddr>) -> Shop {
    let dir = folder(&[]);
    for service in ["catalog", "checkout"] {
        fs::create_dir(dir.path().join(service)).expect("a folder");
        for file in ["clusters", "endpoints", "listener", "routes"] {
            let name = format!("{service}/{file}.yaml");
            let mut text = fs::read_to_string(shop().join(&name)).expect("the example");
            for (index, endpoint) in endpoints.iter().enumerate() {
                let port = format!("port_value: 1810{}", index + 1);
                text = text.replace(&port, &format!("port_value: {}", endpoint.port()));
            }
            fs::write(dir.path().join(name), text).expect("a file");
        }
    }
    Shop { dir, endpoints }
}

/// A running `oxds serve`, killed when dropped.
#[derive(Debug)]
pub(crate) struct Serve {
    child: Child,
    pub(crate) grpc: SocketAddr,
    pub(crate) http: SocketAddr,
}

impl Serve {
    /// Starts to serve a folder on free ports.
    pub(crate) fn start(dir: &Path) -> Self {
        Self::with(dir, [] as [&str; 0])
    }

    /// Starts to serve a folder on free ports, with more arguments.
    pub(crate) fn with<S: AsRef<std::ffi::OsStr>>(
        dir: &Path,
        arguments: impl IntoIterator<Item = S>,
    ) -> Self {
        let mut command = command(["serve", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"]);
        Self::of(command.arg(dir).args(arguments))
    }

    /// Starts the command and reads the two addresses that it prints.
    pub(crate) fn of(command: &mut Command) -> Self {
        Self::with_stderr(command, Stdio::piped())
    }

    /// Starts the command with this stderr.
    pub(crate) fn with_stderr(command: &mut Command, stderr: Stdio) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .expect("the binary runs");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut address = |prefix: &str| -> SocketAddr {
            let line = lines.next().expect("a line").expect("UTF-8");
            let address = line
                .strip_prefix(prefix)
                .unwrap_or_else(|| panic!("{line:?}"));
            address.parse().expect("an address")
        };
        let (grpc, http) = (address("grpc "), address("http "));
        Self { child, grpc, http }
    }

    /// Fetches a page of the HTTP port.
    pub(crate) fn page(&self, path: &str) -> String {
        self.exchange(&format!("GET {path} HTTP/1.1\r\n\r\n"))
    }

    /// Posts a body with these header lines to the HTTP port, and returns the response.
    pub(crate) fn post(&self, path: &str, headers: &str, body: &str) -> String {
        let length = body.len();
        self.exchange(&format!(
            "POST {path} HTTP/1.1\r\n{headers}content-length: {length}\r\n\r\n{body}"
        ))
    }

    /// Adds the headers that all requests have, sends the request, and returns the response.
    fn exchange(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.http).expect("connected");
        stream.set_read_timeout(Some(TIMEOUT)).expect("set");
        let headers = "\r\nhost: localhost\r\nconnection: close\r\n";
        let request = request.replacen("\r\n", headers, 1);
        stream.write_all(request.as_bytes()).expect("sent");
        let mut response = String::new();
        stream.read_to_string(&mut response).expect("read");
        response
    }

    /// Waits until a page contains a text.
    #[track_caller]
    pub(crate) fn shows(&self, path: &str, text: &str) {
        until(|| {
            let page = self.page(path);
            let shows = page.contains(text).then_some(());
            shows.ok_or_else(|| format!("{path} does not contain {text:?}: {page}"))
        });
    }

    /// Closes the reading end of its stderr.
    pub(crate) fn close_stderr(&mut self) {
        drop(self.child.stderr.take());
    }

    /// Sends a signal by name.
    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("sh")
            .args(["-c", &format!("kill -{name} {id}")])
            .status();
        assert!(sent.expect("a shell").success());
    }

    /// Waits for its end, and returns the exit code and the log.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let status = until(|| {
            let status = self.child.try_wait().expect("waited");
            status.ok_or_else(|| "it did not stop".to_owned())
        });
        let mut log = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            stderr.read_to_string(&mut log).expect("UTF-8");
        }
        (status.code(), log)
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
