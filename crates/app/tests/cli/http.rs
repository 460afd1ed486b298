//! A server that is as small as one can be.

use serde_json::Value;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

/// A server at an address of its own, which it gives. `answer` is told the head and the body of one call after another, and
/// gives a status and what is said with it; a call without an answer is left waiting for as long as the test lasts.
pub fn http_server(mut answer: impl FnMut(&str, &str) -> Option<(u16, Value)> + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            // Who hangs up before all was said wants no answer.
            let Ok((head, body)) = call(&stream) else { continue };
            let Some((status, said)) = answer(&head, &body) else {
                std::mem::forget(stream);
                continue;
            };
            let said = said.to_string();
            let length = said.len();
            let head =
                format!("HTTP/1.1 {status} x\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
            let _ = stream.write_all((head + &said).as_bytes());
        }
    });
    url
}

fn call(stream: &TcpStream) -> io::Result<(String, String)> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut line, mut length, mut head) = (String::new(), 0, String::new());
    while reader.read_line(&mut line)? > 2 {
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().map_err(io::Error::other)?;
        }
        head.push_str(&std::mem::take(&mut line));
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok((head, String::from_utf8_lossy(&body).into_owned()))
}
