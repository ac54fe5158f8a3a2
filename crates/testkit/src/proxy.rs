//! Authenticating proxy on the loopback interface, with support for `CONNECT` and SOCKS 5. It always connects
//! to the same server, whatever the requested host.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// User name of the proxy.
pub const USER: &str = "me";
/// Password of the proxy.
pub const PASSWORD: &str = "hunter2";
/// Credentials for `CONNECT`.
const BASIC_CREDENTIALS: &str = "Basic bWU6aHVudGVyMg==";
/// Version byte of SOCKS 5.
const SOCKS_VERSION: u8 = 5;

/// Proxy. Runs until the process exits.
pub struct Proxy {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    /// Starts a proxy to a server, given as `host:port`.
    pub fn start(to: &str) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let proxy = Self { address: listener.local_addr().unwrap(), requests: Arc::default() };
        let (requests, to) = (Arc::clone(&proxy.requests), to.to_owned());
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (requests, to) = (Arc::clone(&requests), to.clone());
                // Ignore errors: if the client disconnects, its request has already failed.
                thread::spawn(move || drop(serve_connection(stream, &to, &requests)));
            }
        });
        proxy
    }

    /// Returns the proxy's address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the requests since the last call, such as `CONNECT host:port HTTP/1.1` or `SOCKS host:port`.
    pub fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.requests.lock().unwrap())
    }
}

fn serve_connection(mut stream: TcpStream, to: &str, requests: &Mutex<Vec<String>>) -> io::Result<()> {
    let [first] = read_bytes(&mut stream)?;
    let is_let_in = match first {
        SOCKS_VERSION => handle_socks(&mut stream, requests)?,
        first => handle_connect(first, &mut stream, requests)?,
    };
    if !is_let_in {
        return Ok(());
    }
    let server = TcpStream::connect(to)?;
    let (mut from_client, mut to_server) = (stream.try_clone()?, server.try_clone()?);
    let forth = thread::spawn(move || {
        drop(io::copy(&mut from_client, &mut to_server));
        drop(to_server.shutdown(std::net::Shutdown::Write));
    });
    io::copy(&mut { server }, &mut stream)?;
    stream.shutdown(std::net::Shutdown::Write)?;
    forth.join().unwrap();
    Ok(())
}

fn read_bytes<const N: usize>(stream: &mut TcpStream) -> io::Result<[u8; N]> {
    let mut read = [0; N];
    stream.read_exact(&mut read)?;
    Ok(read)
}

/// Reads a length byte, and then that many bytes.
fn read_length_prefixed(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let [length] = read_bytes(stream)?;
    let mut read = vec![0; length.into()];
    stream.read_exact(&mut read)?;
    Ok(read)
}

/// Handles a `CONNECT` request, as defined in <https://www.rfc-editor.org/rfc/rfc9110#name-connect>.
fn handle_connect(first: u8, stream: &mut TcpStream, requests: &Mutex<Vec<String>>) -> io::Result<bool> {
    let mut head = vec![first];
    while !head.ends_with(b"\r\n\r\n") {
        head.extend(read_bytes::<1>(stream)?);
    }
    let head = String::from_utf8(head).unwrap();
    requests.lock().unwrap().push(head.lines().next().unwrap().to_owned());
    let is_known = head
        .lines()
        .any(|line| line.eq_ignore_ascii_case(&format!("proxy-authorization: {BASIC_CREDENTIALS}")));
    let answer = match is_known {
        true => "HTTP/1.1 200 OK\r\n\r\n",
        false => "HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n",
    };
    stream.write_all(answer.as_bytes())?;
    Ok(is_known)
}

/// Handles a SOCKS 5 request (<https://www.rfc-editor.org/rfc/rfc1928>), with user and password
/// authentication (<https://www.rfc-editor.org/rfc/rfc1929>).
fn handle_socks(stream: &mut TcpStream, requests: &Mutex<Vec<String>>) -> io::Result<bool> {
    let methods = read_length_prefixed(stream)?;
    if !methods.contains(&2) {
        stream.write_all(&[SOCKS_VERSION, 0xff])?;
        return Ok(false);
    }
    stream.write_all(&[SOCKS_VERSION, 2])?;
    assert_eq!(read_bytes(stream)?, [1]);
    let is_known = (read_length_prefixed(stream)?, read_length_prefixed(stream)?)
        == (USER.as_bytes().to_vec(), PASSWORD.as_bytes().to_vec());
    stream.write_all(&[1, u8::from(!is_known)])?;
    if !is_known {
        return Ok(false);
    }
    let [version, command, _, kind] = read_bytes(stream)?;
    assert_eq!((version, command, kind), (SOCKS_VERSION, 1, 3), "connects to a host by name");
    let host = String::from_utf8(read_length_prefixed(stream)?).unwrap();
    let port = u16::from_be_bytes(read_bytes(stream)?);
    requests.lock().unwrap().push(format!("SOCKS {host}:{port}"));
    stream.write_all(&[SOCKS_VERSION, 0, 0, 1, 0, 0, 0, 0, 0, 0])?;
    Ok(true)
}
