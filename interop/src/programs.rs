//! Paths of the programs under test, as `interop/run` installs them.

use std::path::{Path, PathBuf};

use crate::Fallible;

/// Programs under test. All of them must exist: a missing program is a failure.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    pub(crate) oxds: PathBuf,
    /// An `XdsServer`.
    pub(crate) echo_server: PathBuf,
    pub(crate) suite: SuitePrograms,
    pub(crate) python: PythonPrograms,
    pub(crate) go: GoPrograms,
    pub(crate) java: JavaPrograms,
    pub(crate) node: NodePrograms,
    pub(crate) etcd: EtcdPrograms,
    pub(crate) envoy: PathBuf,
    pub(crate) prometheus: PathBuf,
    /// Library that makes a process's wall clock step.
    pub(crate) clock: PathBuf,
}

/// Programs of gRPC's interop suite: ours, and grpc-go's.
#[derive(Clone, Debug)]
pub(crate) struct SuitePrograms {
    pub(crate) clients: [PathBuf; 2],
    pub(crate) servers: [PathBuf; 2],
}

/// The Python interpreter, and its scripts.
#[derive(Clone, Debug)]
pub(crate) struct PythonPrograms {
    pub(crate) interpreter: PathBuf,
    pub(crate) client: PathBuf,
    pub(crate) server: PathBuf,
    pub(crate) csds: PathBuf,
    pub(crate) rest: PathBuf,
    pub(crate) debug: PathBuf,
}

/// Programs on grpc-go and go-control-plane.
#[derive(Clone, Debug)]
pub(crate) struct GoPrograms {
    pub(crate) client: PathBuf,
    /// grpc-go 1.32 and 1.36.
    pub(crate) v2_clients: [PathBuf; 2],
    pub(crate) server: PathBuf,
    pub(crate) backend: PathBuf,
    pub(crate) debug: PathBuf,
    pub(crate) control_plane: PathBuf,
    pub(crate) control_plane_v2: PathBuf,
}

/// java-control-plane: the compiled program, and its class path.
#[derive(Clone, Debug)]
pub(crate) struct JavaPrograms {
    pub(crate) classes: PathBuf,
    pub(crate) libraries: PathBuf,
}

/// Scripts for Node.js, with what they need.
#[derive(Clone, Debug)]
pub(crate) struct NodePrograms {
    pub(crate) client: PathBuf,
    pub(crate) modules: PathBuf,
    /// Test of the status page, and the browser that it drives.
    pub(crate) page: PathBuf,
    pub(crate) chromium: PathBuf,
    pub(crate) buf: PathBuf,
}

/// Programs of both releases of etcd, and its API.
#[derive(Clone, Debug)]
pub(crate) struct EtcdPrograms {
    pub(crate) server: PathBuf,
    pub(crate) etcdctl: PathBuf,
    pub(crate) etcdutl: PathBuf,
    pub(crate) debian_server: PathBuf,
    pub(crate) debian_etcdctl: PathBuf,
    /// A part of etcd's API over other stores.
    pub(crate) kine: PathBuf,
    /// Folder of the released protos.
    pub(crate) protos: PathBuf,
}

impl Programs {
    /// Finds the programs below `interop/.peers`, and those of ours beside the runner.
    ///
    /// # Errors
    /// A program is missing.
    pub(crate) fn find(oxds: &Path, interop: &Path) -> Fallible<Self> {
        let installed = interop.join(".peers");
        let runner = std::env::current_exe()?;
        let programs = Self {
            oxds: oxds.to_owned(),
            echo_server: runner.with_file_name("xds-echo-server"),
            suite: SuitePrograms::of(&installed, &runner),
            python: PythonPrograms::of(&installed, &interop.join("peers/python")),
            go: GoPrograms::of(&installed.join("bin")),
            java: JavaPrograms {
                classes: installed.join("java/classes"),
                libraries: installed.join("java/lib"),
            },
            node: NodePrograms::of(&installed.join("node"), &interop.join("peers/node")),
            etcd: EtcdPrograms::of(&installed),
            envoy: installed.join("bin/envoy"),
            prometheus: "/usr/bin/prometheus".into(),
            clock: installed.join("bin/clock.so"),
        };
        let mut all = vec![
            programs.oxds.clone(),
            programs.echo_server.clone(),
            programs.java.classes.join("ControlPlane.class"),
            programs.java.libraries.clone(),
            programs.envoy.clone(),
            programs.prometheus.clone(),
            programs.clock.clone(),
        ];
        all.extend(programs.suite.all().cloned());
        all.extend(programs.python.all().map(Clone::clone));
        all.extend(programs.go.all().cloned());
        all.extend(programs.node.all());
        all.extend(programs.etcd.all().map(Clone::clone));
        match all.iter().find(|program| !program.exists()) {
            Some(missing) => Err(format!("missing peer: {}", missing.display()).into()),
            None => Ok(programs),
        }
    }
}

impl SuitePrograms {
    fn of(installed: &Path, runner: &Path) -> Self {
        // Ours are built beside the runner.
        let suite = |program: &str| {
            [
                runner.with_file_name(format!("xds-interop-{program}")),
                installed.join(format!("bin/xds-{program}")),
            ]
        };
        Self {
            clients: suite("client"),
            servers: suite("server"),
        }
    }

    fn all(&self) -> impl Iterator<Item = &PathBuf> {
        self.clients.iter().chain(&self.servers)
    }
}

impl PythonPrograms {
    fn of(installed: &Path, scripts: &Path) -> Self {
        Self {
            interpreter: installed.join("venv/bin/python"),
            client: scripts.join("client.py"),
            server: scripts.join("server.py"),
            csds: scripts.join("csds.py"),
            rest: scripts.join("rest.py"),
            debug: scripts.join("debug.py"),
        }
    }

    fn all(&self) -> [&PathBuf; 6] {
        [
            &self.interpreter,
            &self.client,
            &self.server,
            &self.csds,
            &self.rest,
            &self.debug,
        ]
    }
}

impl GoPrograms {
    fn of(folder: &Path) -> Self {
        Self {
            client: folder.join("client"),
            v2_clients: ["1.32", "1.36"].map(|version| folder.join(format!("client-{version}"))),
            server: folder.join("server"),
            backend: folder.join("backend"),
            debug: folder.join("debug"),
            control_plane: folder.join("control-plane"),
            control_plane_v2: folder.join("control-plane-v2"),
        }
    }

    fn all(&self) -> impl Iterator<Item = &PathBuf> {
        let others = [
            &self.client,
            &self.server,
            &self.backend,
            &self.debug,
            &self.control_plane,
            &self.control_plane_v2,
        ];
        others.into_iter().chain(&self.v2_clients)
    }
}

impl NodePrograms {
    fn of(installed: &Path, scripts: &Path) -> Self {
        let modules = installed.join("node_modules");
        Self {
            client: scripts.join("client.js"),
            page: scripts.join("page.js"),
            chromium: "/usr/bin/chromium".into(),
            buf: modules.join(".bin/buf"),
            modules,
        }
    }

    fn all(&self) -> [PathBuf; 5] {
        [
            self.client.clone(),
            self.page.clone(),
            self.chromium.clone(),
            self.buf.clone(),
            self.modules.join("@grpc/grpc-js-xds"),
        ]
    }
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
            kine: installed.join("bin/kine"),
            protos: installed.join("etcd-protos"),
        }
    }

    fn all(&self) -> [&PathBuf; 7] {
        [
            &self.server,
            &self.etcdctl,
            &self.etcdutl,
            &self.debian_server,
            &self.debian_etcdctl,
            &self.kine,
            &self.protos,
        ]
    }
}
