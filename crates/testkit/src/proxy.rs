//! A proxy on loopback that leads whoever may use it to one server, whatever host they name: by `CONNECT` and by SOCKS 5.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// The user that it lets in.
pub const USER: &str = "me";
/// Its password.
pub const PASSWORD: &str = "hunter2";
/// Both, as `CONNECT` is told them.
const BASIC: &str = "Basic bWU6aHVudGVyMg==";
/// The first byte of all that SOCKS 5 says.
const SOCKS: u8 = 5;

/// A proxy, for as long as the process lasts.
pub struct Proxy {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    /// One that leads to a server, `host:port`.
    pub fn start(to: &str) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let proxy = Self { address: listener.local_addr().unwrap(), asked: Arc::default() };
        let (asked, to) = (Arc::clone(&proxy.asked), to.to_owned());
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (asked, to) = (Arc::clone(&asked), to.clone());
                // Whoever breaks off has not got through.
                thread::spawn(move || drop(serve(stream, &to, &asked)));
            }
        });
        proxy
    }

    /// Where it is: `host:port`.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it was asked for since this was asked last: `CONNECT host:port HTTP/1.1`, or `SOCKS host:port`.
    pub fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

fn serve(mut stream: TcpStream, to: &str, asked: &Mutex<Vec<String>>) -> io::Result<()> {
    let [first] = bytes(&mut stream)?;
    let is_let_in = match first {
        SOCKS => socks(&mut stream, asked)?,
        first => connect(first, &mut stream, asked)?,
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

fn bytes<const N: usize>(stream: &mut TcpStream) -> io::Result<[u8; N]> {
    let mut read = [0; N];
    stream.read_exact(&mut read)?;
    Ok(read)
}

/// So many bytes as the next one says.
fn counted(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let [length] = bytes(stream)?;
    let mut read = vec![0; length.into()];
    stream.read_exact(&mut read)?;
    Ok(read)
}

/// <https://www.rfc-editor.org/rfc/rfc9110#name-connect>
fn connect(first: u8, stream: &mut TcpStream, asked: &Mutex<Vec<String>>) -> io::Result<bool> {
    let mut head = vec![first];
    while !head.ends_with(b"\r\n\r\n") {
        head.extend(bytes::<1>(stream)?);
    }
    let head = String::from_utf8(head).unwrap();
    asked.lock().unwrap().push(head.lines().next().unwrap().to_owned());
    let is_known =
        head.lines().any(|line| line.eq_ignore_ascii_case(&format!("proxy-authorization: {BASIC}")));
    let answer = match is_known {
        true => "HTTP/1.1 200 OK\r\n\r\n",
        false => "HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n",
    };
    stream.write_all(answer.as_bytes())?;
    Ok(is_known)
}

/// <https://www.rfc-editor.org/rfc/rfc1928>, with user and password by <https://www.rfc-editor.org/rfc/rfc1929>.
fn socks(stream: &mut TcpStream, asked: &Mutex<Vec<String>>) -> io::Result<bool> {
    let methods = counted(stream)?;
    if !methods.contains(&2) {
        stream.write_all(&[SOCKS, 0xff])?;
        return Ok(false);
    }
    stream.write_all(&[SOCKS, 2])?;
    assert_eq!(bytes(stream)?, [1]);
    let is_known =
        (counted(stream)?, counted(stream)?) == (USER.as_bytes().to_vec(), PASSWORD.as_bytes().to_vec());
    stream.write_all(&[1, u8::from(!is_known)])?;
    if !is_known {
        return Ok(false);
    }
    let [version, command, _, kind] = bytes(stream)?;
    assert_eq!((version, command, kind), (SOCKS, 1, 3), "a connection to a host by its name");
    let host = String::from_utf8(counted(stream)?).unwrap();
    let port = u16::from_be_bytes(bytes(stream)?);
    asked.lock().unwrap().push(format!("SOCKS {host}:{port}"));
    stream.write_all(&[SOCKS, 0, 0, 1, 0, 0, 0, 0, 0, 0])?;
    Ok(true)
}
