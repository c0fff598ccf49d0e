//! Traces asynchronous code. The runtime starts within the closure, so its threads are counted as well:
//! those that are there before the closure are not.

use std::io;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    runtime::Runtime,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (answer, report) = zctrace::trace(|| Runtime::new()?.block_on(ask()))?;
    assert_eq!(answer?, *b"ping");
    println!("{report}");
    // A question and its answer are two writes, however many threads there are.
    zctrace::assert_syscalls!(report, "sendto.calls == 2", "sendto.bytes == 8B");
    Ok(())
}

/// Sends a few bytes to a server that sends them back.
async fn ask() -> io::Result<[u8; 4]> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = tokio::spawn(async move {
        let (mut client, _) = listener.accept().await?;
        let mut question = [0; 4];
        client.read_exact(&mut question).await?;
        client.write_all(&question).await
    });
    let mut client = TcpStream::connect(address).await?;
    client.write_all(b"ping").await?;
    let mut answer = [0; 4];
    client.read_exact(&mut answer).await?;
    server.await??;
    Ok(answer)
}

#[zctrace::test]
fn it_runs() -> Result<(), Box<dyn std::error::Error>> {
    main()
}
