//! Any text as a bootstrap file: a bootstrap or an error that says where, never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use oxds_client::bootstrap::Bootstrap;

fuzz_target!(|text: &str| {
    match Bootstrap::from_json(text) {
        Ok(bootstrap) => {
            for server in bootstrap.servers() {
                let _ = server.version();
            }
            let _ = bootstrap.server_listener_name(([127, 0, 0, 1], 50051).into());
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
