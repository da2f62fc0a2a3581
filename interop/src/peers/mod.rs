//! The peers: paths of their programs, and one module per peer that runs it.

pub(crate) mod admin;
pub(crate) mod channel;
pub(crate) mod clock;
pub(crate) mod control_plane;
pub(crate) mod csds;
pub(crate) mod envoy;
pub(crate) mod etcd;
pub(crate) mod foreign;
pub(crate) mod go_backend;
pub(crate) mod grpc;
pub(crate) mod grpc_server;
pub(crate) mod grpc_v2;
pub(crate) mod keys;
pub(crate) mod oxds;
pub(crate) mod replica;
pub(crate) mod rest;
pub(crate) mod sessions;
pub(crate) mod suite;

use std::path::{Path, PathBuf};

use crate::Fallible;

/// Programs under test. All of them must exist: a missing peer is a failure.
#[derive(Clone, Debug)]
pub(crate) struct Peers {
    pub(crate) oxds: PathBuf,
    pub(crate) envoy: PathBuf,
    pub(crate) python: PathBuf,
    pub(crate) python_client: PathBuf,
    pub(crate) python_server: PathBuf,
    pub(crate) python_csds: PathBuf,
    pub(crate) python_rest: PathBuf,
    pub(crate) go_backend: PathBuf,
    pub(crate) python_debug: PathBuf,
    pub(crate) go_client: PathBuf,
    pub(crate) go_debug: PathBuf,
    pub(crate) go_server: PathBuf,
    pub(crate) go_control_plane: PathBuf,
    pub(crate) go_control_plane_v2: PathBuf,
    /// java-control-plane: the compiled program, and its class path.
    pub(crate) java_classes: PathBuf,
    pub(crate) java_libraries: PathBuf,
    pub(crate) node_client: PathBuf,
    pub(crate) node_modules: PathBuf,
    /// Test of the status page, and the browser that it drives.
    pub(crate) node_page: PathBuf,
    pub(crate) chromium: PathBuf,
    pub(crate) prometheus: PathBuf,
    /// grpc-go 1.32 and 1.36.
    pub(crate) go_v2_clients: [PathBuf; 2],
    pub(crate) buf: PathBuf,
    /// Programs of the interop suite: ours, and grpc-go's.
    pub(crate) suite_clients: [PathBuf; 2],
    pub(crate) suite_servers: [PathBuf; 2],
    /// An `XdsServer`.
    pub(crate) echo_server: PathBuf,
    /// Library that makes a process's wall clock step.
    pub(crate) clock: PathBuf,
    pub(crate) etcd: EtcdPrograms,
    /// A part of etcd's API over other stores.
    pub(crate) kine: PathBuf,
    /// Folder of the released protos.
    pub(crate) etcd_protos: PathBuf,
}

/// Programs of both releases of etcd.
#[derive(Clone, Debug)]
pub(crate) struct EtcdPrograms {
    pub(crate) server: PathBuf,
    pub(crate) etcdctl: PathBuf,
    pub(crate) etcdutl: PathBuf,
    pub(crate) debian_server: PathBuf,
    pub(crate) debian_etcdctl: PathBuf,
}

impl EtcdPrograms {
    fn of(installed: &Path) -> Self {
        let debian = installed.join("etcd-debian/usr/bin");
        Self {
            server: installed.join("bin/etcd"),
            etcdctl: installed.join("bin/etcdctl"),
            etcdutl: installed.join("bin/etcdutl"),
            debian_server: debian.join("etcd"),
            debian_etcdctl: debian.join("etcdctl"),
        }
    }

    fn all(&self) -> [&PathBuf; 5] {
        [
            &self.server,
            &self.etcdctl,
            &self.etcdutl,
            &self.debian_server,
            &self.debian_etcdctl,
        ]
    }
}

impl Peers {
    /// Paths of the peers as `interop/run` installs them, below `interop/.peers`.
    pub(crate) fn find(oxds: &Path, interop: &Path) -> Fallible<Self> {
        let installed = interop.join(".peers");
        // Ours are built beside the runner.
        let runner = std::env::current_exe()?;
        let suite = |program: &str| {
            [
                runner.with_file_name(format!("xds-interop-{program}")),
                installed.join(format!("bin/xds-{program}")),
            ]
        };
        let peers = Self {
            oxds: oxds.to_owned(),
            envoy: installed.join("bin/envoy"),
            python: installed.join("venv/bin/python"),
            python_client: interop.join("peers/python/client.py"),
            python_server: interop.join("peers/python/server.py"),
            python_csds: interop.join("peers/python/csds.py"),
            python_rest: interop.join("peers/python/rest.py"),
            go_backend: installed.join("bin/backend"),
            python_debug: interop.join("peers/python/debug.py"),
            go_client: installed.join("bin/client"),
            go_debug: installed.join("bin/debug"),
            go_server: installed.join("bin/server"),
            go_control_plane: installed.join("bin/control-plane"),
            go_control_plane_v2: installed.join("bin/control-plane-v2"),
            java_classes: installed.join("java/classes"),
            java_libraries: installed.join("java/lib"),
            node_client: interop.join("peers/node/client.js"),
            node_page: interop.join("peers/node/page.js"),
            chromium: "/usr/bin/chromium".into(),
            prometheus: "/usr/bin/prometheus".into(),
            node_modules: installed.join("node/node_modules"),
            go_v2_clients: ["1.32", "1.36"].map(|v| installed.join(format!("bin/client-{v}"))),
            buf: installed.join("node/node_modules/.bin/buf"),
            suite_clients: suite("client"),
            suite_servers: suite("server"),
            echo_server: runner.with_file_name("xds-echo-server"),
            clock: installed.join("bin/clock.so"),
            etcd: EtcdPrograms::of(&installed),
            kine: installed.join("bin/kine"),
            etcd_protos: installed.join("etcd-protos"),
        };
        for program in [
            &peers.oxds,
            &peers.envoy,
            &peers.python,
            &peers.python_client,
            &peers.python_server,
            &peers.python_csds,
            &peers.python_rest,
            &peers.node_page,
            &peers.chromium,
            &peers.prometheus,
            &peers.go_backend,
            &peers.python_debug,
            &peers.go_client,
            &peers.go_debug,
            &peers.go_server,
            &peers.go_control_plane,
            &peers.go_control_plane_v2,
            &peers.java_classes.join("ControlPlane.class"),
            &peers.java_libraries,
            &peers.node_client,
            &peers.node_modules.join("@grpc/grpc-js-xds"),
            &peers.go_v2_clients[0],
            &peers.go_v2_clients[1],
            &peers.buf,
            &peers.echo_server,
            &peers.clock,
            &peers.kine,
            &peers.etcd_protos,
        ]
        .into_iter()
        .chain(&peers.suite_clients)
        .chain(&peers.suite_servers)
        .chain(peers.etcd.all())
        {
            if !program.exists() {
                return Err(format!("missing peer: {}", program.display()).into());
            }
        }
        Ok(peers)
    }
}
