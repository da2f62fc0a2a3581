//! A link to a backend that is 20 ms away: every byte arrives 10 ms after it was sent. The link has no limit of
//! bandwidth.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Time of one direction: half a round trip.
const ONE_WAY: Duration = Duration::from_millis(10);

/// Starts a link to this address for as long as the process lives, and returns its near end.
pub(super) fn link(to: &str) -> Result<String, String> {
    let listener =
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|error| error.to_string())?;
    let near = listener.local_addr().map_err(|error| error.to_string())?;
    let to = to.to_owned();
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            // The client notices a failed connection.
            let Ok(server) = TcpStream::connect(&to) else {
                continue;
            };
            let _ = carry(&client, &server);
            let _ = carry(&server, &client);
        }
    });
    Ok(near.to_string())
}

/// One direction, on two threads of its own.
fn carry(from: &TcpStream, to: &TcpStream) -> std::io::Result<()> {
    let (mut from, mut to) = (from.try_clone()?, to.try_clone()?);
    to.set_nodelay(true)?;
    let (sender, receiver) = mpsc::channel::<(Instant, Vec<u8>)>();
    std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            let arrival = Instant::now() + ONE_WAY;
            if sender.send((arrival, buffer[..length].to_vec())).is_err() {
                break;
            }
        }
    });
    std::thread::spawn(move || {
        for (arrival, bytes) in receiver {
            std::thread::sleep(arrival.saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    });
    Ok(())
}
