//! A well-behaved control plane: `oxds-server` over a folder, and resources to write into it.

#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "tests fail by panics"
)]

use std::fmt::Write;
use std::net::{Ipv4Addr, SocketAddr};

use oxds_server::{DirStore, SavedState, Security, Server, StateOptions, dir};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::SOON;
use crate::resources::yaml;

/// `oxds-server` over a folder, in a runtime of its own, so that it can be killed like a process.
#[derive(Debug)]
pub struct FolderServer {
    folder: TempDir,
    address: SocketAddr,
    http: SocketAddr,
    security: Security,
    /// Folder of the state, if it is kept.
    state: Option<TempDir>,
    running: Option<Runtime>,
}

impl FolderServer {
    /// Serves these resources.
    pub fn start(yaml: &str) -> Self {
        Self::start_with(yaml, Security::default())
    }

    /// Accepts only the clients that `security` allows.
    pub fn start_with(yaml: &str, security: Security) -> Self {
        let mut control_plane = Self {
            folder: tempfile::tempdir().unwrap(),
            address: (Ipv4Addr::LOCALHOST, 0).into(),
            http: (Ipv4Addr::LOCALHOST, 0).into(),
            security,
            state: None,
            running: None,
        };
        control_plane.write(yaml);
        control_plane.restart();
        control_plane
    }

    /// Keeps the last good state on disk, from now on.
    pub fn keep_state(&mut self) {
        self.state = Some(tempfile::tempdir().unwrap());
        self.restart();
    }

    /// Moves the served folder away, as a volume that is not mounted.
    pub fn unmount(&self) {
        std::fs::rename(
            self.folder.path(),
            self.folder.path().with_extension("away"),
        )
        .unwrap();
    }

    /// Moves it back.
    pub fn mount(&self) {
        std::fs::rename(
            self.folder.path().with_extension("away"),
            self.folder.path(),
        )
        .unwrap();
    }

    /// Opens the state. The process that was killed may hold it for a moment longer.
    fn state(&self) -> Option<SavedState> {
        let folder = self.state.as_ref()?.path();
        let end = std::time::Instant::now() + SOON;
        loop {
            match SavedState::open(folder, StateOptions::of_folder(self.folder.path())) {
                Ok(state) => return Some(state),
                Err(error) => assert!(std::time::Instant::now() < end, "{error}"),
            }
            std::thread::yield_now();
        }
    }

    /// Returns the gRPC address, which stays the same.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// REST address since the last start.
    pub fn http_address(&self) -> SocketAddr {
        self.http
    }

    /// Replaces all resources in one change.
    pub fn write(&self, yaml: &str) {
        let new = self.folder.path().join("all.tmp");
        std::fs::write(&new, yaml).unwrap();
        std::fs::rename(new, self.folder.path().join("all.yaml")).unwrap();
    }

    /// Kills the server without a shutdown: its sockets just close. They are closed when this returns.
    pub fn kill(&mut self) {
        if let Some(runtime) = self.running.take() {
            // A runtime must not be waited for on a thread of another runtime.
            let closing = std::thread::spawn(|| runtime.shutdown_timeout(SOON));
            closing.join().unwrap();
        }
    }

    /// Serves again at its previous address.
    pub fn restart(&mut self) {
        self.restart_with(self.security.clone());
    }

    /// The same, with security.
    pub fn restart_with(&mut self, security: Security) {
        self.kill();
        self.security = security.clone();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let (state, mut options) = (self.state(), dir::Options::default());
        options.last_good = state.as_ref().and_then(SavedState::last_good);
        let store = DirStore::open(self.folder.path(), options).unwrap();
        let address = self.address;
        let (tell, told) = std::sync::mpsc::channel();
        runtime.spawn(async move {
            let mut builder = Server::builder();
            if let Some(state) = state {
                builder = builder.state(state);
            }
            let server = builder
                .grpc(address)
                .http((Ipv4Addr::LOCALHOST, 0).into())
                .security(security)
                .store(store)
                .bind()
                .await
                .unwrap();
            tell.send((server.grpc_addr(), server.http_addr())).unwrap();
            server.run(std::future::pending()).await;
        });
        let (address, http) = told.recv_timeout(SOON).unwrap();
        (self.address, self.http) = (address, http.unwrap());
        self.running = Some(runtime);
    }
}

impl Drop for FolderServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Resources as YAML documents.
#[derive(Debug, Default)]
pub struct Yaml(String);

/// One locality of an assignment: name, weight, priority, endpoints with their health.
pub type Place<'a> = (&'a str, u32, u32, &'a [(SocketAddr, &'a str)]);

impl Yaml {
    /// Adds listener `svc` and its routes: match and action as flow mappings.
    pub fn service(mut self, routes: &[(&str, &str)]) -> Self {
        let route =
            |(matching, action): &(&str, &str)| format!("match: {matching}, route: {action}");
        let routes: Vec<String> = routes.iter().map(route).collect();
        let routes = yaml::route_config("svc-routes", "svc", &routes);
        self.0 += &yaml::documents(&[yaml::api_listener("svc", "svc-routes"), routes]);
        self
    }

    /// Adds a cluster and its endpoints.
    pub fn cluster(self, name: &str, places: &[Place<'_>]) -> Self {
        self.cluster_dropping(name, 0, places)
    }

    /// Adds a cluster that drops this percentage of its calls.
    pub fn cluster_dropping(mut self, name: &str, percent: u32, places: &[Place<'_>]) -> Self {
        let (yaml, cluster) = (&mut self.0, yaml::eds_cluster(name, ""));
        writeln!(
            yaml,
            "---\n\
             {cluster}---\n\
             \"@type\": type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment\n\
             cluster_name: {name}\n\
             policy: {{ drop_overloads: [ {{ category: shed, drop_percentage: {{ numerator: {percent} }} }} ] }}\n\
             endpoints:",
        )
        .unwrap();
        for (region, weight, priority, endpoints) in places {
            writeln!(
                yaml,
                "- locality: {{ region: {region} }}\n  \
                   load_balancing_weight: {weight}\n  \
                   priority: {priority}\n  \
                   lb_endpoints:",
            )
            .unwrap();
            for (address, health) in *endpoints {
                let (ip, port) = (address.ip(), address.port());
                writeln!(
                    yaml,
                    "  - endpoint: {{ address: {{ socket_address: {{ address: {ip}, port_value: {port} }} }} }}\n    \
                         health_status: {health}",
                )
                .unwrap();
            }
        }
        self
    }

    /// Returns the documents.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The service with one route that sends everything to one cluster.
pub fn one(cluster: &str, places: &[Place<'_>]) -> String {
    let action = format!("{{ cluster: {cluster} }}");
    let yaml = Yaml::default().service(&[("{ prefix: \"\" }", &action)]);
    yaml.cluster(cluster, places).0
}
