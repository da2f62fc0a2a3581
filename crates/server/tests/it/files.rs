//! The file sink: the served resources as files (S-57).

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use oxds_core::snapshot::{ChangeSet, Resource};
use oxds_server::{Cache, FileSink, Server};
use oxds_types::ResourceType;
use serde_json::Value;
use tempfile::TempDir;
use tokio::task::JoinHandle;

use crate::until;

fn resource(resource_type: &ResourceType, name: &str) -> Arc<Resource> {
    let mut value = vec![0x0a, u8::try_from(name.len()).unwrap()];
    value.extend_from_slice(name.as_bytes());
    Arc::new(Resource::new(resource_type.clone(), name, &value))
}

fn changes(upserts: &[(&ResourceType, &str)], removals: &[(&ResourceType, &str)]) -> ChangeSet {
    ChangeSet {
        upserts: upserts
            .iter()
            .map(|(resource_type, name)| resource(resource_type, name))
            .collect(),
        removals: removals
            .iter()
            .map(|(resource_type, name)| ((*resource_type).clone(), (*name).into()))
            .collect(),
    }
}

/// Returns the names of the resources in a file, or `None` if there is no such file. A file is always complete.
fn names(folder: &Path, file: &str) -> Option<Vec<String>> {
    let text = fs::read_to_string(folder.join(file)).ok()?;
    let response: Value = serde_json::from_str(&text).unwrap();
    let resources = response["resources"].as_array()?;
    let name = |resource: &Value| {
        let name = [&resource["name"], &resource["clusterName"]];
        name.into_iter().find_map(Value::as_str).map(str::to_owned)
    };
    Some(resources.iter().filter_map(name).collect())
}

async fn holds(folder: &Path, file: &str, expected: Option<&[&str]>) {
    until(&format!("{file} holds {expected:?}"), async || {
        let found = names(folder, file);
        (found.as_deref().map(<[String]>::to_vec)
            == expected.map(|all| all.iter().map(|&name| name.to_owned()).collect()))
        .then_some(())
    })
    .await;
}

#[tokio::test]
async fn s57_files_follow_the_snapshot_and_are_renamed_into_place() {
    let dir = TempDir::new().unwrap();
    let folder = dir.path().join("out");
    fs::create_dir_all(folder.join("eds")).unwrap();
    fs::write(folder.join("eds/old.json"), "left by an earlier run").unwrap();
    let cache = Cache::new();
    let sink = tokio::spawn(FileSink::new(cache.clone(), &folder).run());

    let (cds, eds) = (ResourceType::CLUSTER, ResourceType::ENDPOINT);
    cache.apply(changes(&[(&cds, "a"), (&cds, "b"), (&eds, "shop/a")], &[]));
    holds(&folder, "cds.json", Some(&["a", "b"])).await;
    holds(&folder, "eds/shop%2Fa.json", Some(&["shop/a"])).await;
    until("the file of an earlier run is deleted", async || {
        (!folder.join("eds/old.json").exists()).then_some(())
    })
    .await;

    // A reader that has the old file open still reads the complete old content.
    let before = folder.join("before");
    fs::hard_link(folder.join("cds.json"), &before).unwrap();
    // Removed resources stay for a moment beside the new ones, until readers have followed.
    cache.apply(changes(&[(&cds, "c")], &[(&cds, "a"), (&eds, "shop/a")]));
    holds(&folder, "cds.json", Some(&["b", "c", "a"])).await;
    holds(&folder, "cds.json", Some(&["b", "c"])).await;
    holds(&folder, "eds/shop%2Fa.json", None).await;
    holds(&folder, "before", Some(&["a", "b"])).await;
    let left = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = left.map(|name| name.into_string().unwrap()).collect();
    assert!(left.iter().all(|name| !name.ends_with(".new")), "{left:?}");
    sink.abort();
}

/// Given a cluster file that cannot be written, then listeners, which may refer to clusters, are not written until it
/// can be.
#[tokio::test]
async fn s57_files_are_written_before_their_referrers() {
    let dir = TempDir::new().unwrap();
    let in_the_way = dir.path().join("cds.json");
    fs::create_dir(&in_the_way).unwrap();
    let cache = Cache::new();
    let sink = tokio::spawn(FileSink::new(cache.clone(), dir.path()).run());
    cache.apply(changes(
        &[
            (&ResourceType::LISTENER, "l"),
            (&ResourceType::CLUSTER, "a"),
        ],
        &[],
    ));
    until("the sink tried to write", async || {
        dir.path().join(".cds.json.new").exists().then_some(())
    })
    .await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(names(dir.path(), "lds.json"), None);
    fs::remove_dir(&in_the_way).unwrap();
    holds(dir.path(), "lds.json", Some(&["l"])).await;
    assert_eq!(names(dir.path(), "cds.json").unwrap(), ["a"]);
    sink.abort();
}

/// Given a name that is too long for a file, and one whose file cannot be written, then all others are written and
/// updated, and both are findings of the server. When the file can be written, its finding goes.
#[tokio::test]
async fn s57_one_file_does_not_stop_the_others() {
    let dir = TempDir::new().unwrap();
    let in_the_way = dir.path().join("eds/stuck.json");
    fs::create_dir_all(&in_the_way).unwrap();
    fs::write(in_the_way.join("file"), "").unwrap();
    let any = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    let server = Server::builder().http(any).bind().await.unwrap();
    let (cache, http) = (server.cache(), server.http_addr().unwrap());
    let sink = FileSink::new(cache.clone(), dir.path()).report_to(server.reporter("files"));
    let tasks = [
        tokio::spawn(sink.run()),
        tokio::spawn(server.run(std::future::pending())),
    ];
    let shown = async |rules: &[&str]| {
        until(&format!("findings {rules:?}"), async || {
            let status = crate::admin::json(http).await;
            let findings = status["store"]["findings"].as_array().unwrap().clone();
            let found: Vec<_> = findings
                .iter()
                .map(|f| f["rule"].as_str().unwrap())
                .collect();
            (found == rules).then_some(())
        })
        .await;
    };
    let (cds, eds) = (ResourceType::CLUSTER, ResourceType::ENDPOINT);
    let long = "x".repeat(60) + &"/".repeat(60);
    cache.apply(changes(
        &[(&eds, &long), (&eds, "stuck"), (&eds, "a"), (&cds, "c")],
        &[],
    ));
    holds(dir.path(), "eds/a.json", Some(&["a"])).await;
    holds(dir.path(), "cds.json", Some(&["c"])).await;
    let find = |beginning: &str| {
        let entries = fs::read_dir(dir.path().join("eds")).unwrap();
        let mut names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.find(|name| name.starts_with(beginning))
    };
    let file = until("the file of the long name", async || find("xxx")).await;
    assert!(file.contains('~') && file.len() < 220, "{file}");
    assert_eq!(
        names(dir.path(), &format!("eds/{file}")).unwrap(),
        std::slice::from_ref(&long)
    );
    shown(&["files", "long-name"]).await;
    cache.apply(changes(&[(&eds, "b")], &[(&eds, &long)]));
    holds(dir.path(), "eds/b.json", Some(&["b"])).await;
    until("the long name is deleted", async || {
        find("xxx").is_none().then_some(())
    })
    .await;
    shown(&["files"]).await;
    fs::remove_dir_all(&in_the_way).unwrap();
    holds(dir.path(), "eds/stuck.json", Some(&["stuck"])).await;
    shown(&[]).await;
    tasks.iter().for_each(JoinHandle::abort);
}

#[cfg(unix)]
#[tokio::test]
async fn s57_secret_files_are_readable_by_the_owner_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = TempDir::new().unwrap();
    let cache = Cache::new();
    let sink = tokio::spawn(FileSink::new(cache.clone(), dir.path()).run());
    cache.apply(changes(&[(&ResourceType::SECRET, "key")], &[]));
    holds(dir.path(), "sds/key.json", Some(&["key"])).await;
    let mode = fs::metadata(dir.path().join("sds/key.json"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    sink.abort();
}
