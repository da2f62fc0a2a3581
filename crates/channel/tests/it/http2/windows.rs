//! Windows: large messages pass small ones, and what is not read stops at its own.

use super::*;

#[tokio::test]
async fn large_messages_pass_small_windows_both_ways() {
    const SIZE: usize = 8 << 20;
    // given a server with the smallest windows, 64 KiB, which echoes a message that it has read
    let backend = server(
        h2::server::Builder::new(),
        |request, mut respond| async move {
            let mut body = request.into_body();
            let size = drain(&mut body).await.unwrap();
            let mut stream = respond.send_response(grpc_head(), false).unwrap();
            stream.send_data(Bytes::from(vec![7; size]), false).unwrap();
            stream.send_trailers(ok_trailers()).unwrap();
        },
    )
    .await;
    let (_script, channel) = channel_to(backend);
    let unary = Full::from(vec![7; SIZE]);
    let frames = (0..SIZE / 65_536).map(|_| Ok::<_, Status>(Frame::data(vec![7; 65_536].into())));
    let streamed = StreamBody::new(tokio_stream::iter(frames));
    let responses = [
        send(&channel, post(unary)).await,
        send(&channel, post(streamed)).await,
    ];
    for response in responses {
        let body = timeout(SOON, response.into_body().collect()).await.unwrap();
        assert_eq!(body.unwrap().to_bytes().len(), SIZE);
    }
}

#[tokio::test]
async fn unread_response_stops_at_its_window() {
    const WINDOW: usize = 2 << 20;
    // given a server that sends as much as it may, until the test says otherwise
    let sent = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&sent);
    let backend = server(h2::server::Builder::new(), move |request, mut respond| {
        let sent = Arc::clone(&counting);
        async move {
            if request.headers().contains_key("x-short") {
                return answer(&mut respond);
            }
            let mut stream = respond.send_response(grpc_head(), false).unwrap();
            while sent.load(Ordering::SeqCst) < 2 * WINDOW {
                stream.reserve_capacity(65_536);
                let capacity = std::future::poll_fn(|cx| stream.poll_capacity(cx)).await;
                let Some(Ok(capacity)) = capacity else { return };
                stream.send_data(vec![7; capacity].into(), false).unwrap();
                sent.fetch_add(capacity, Ordering::SeqCst);
            }
            stream.send_trailers(ok_trailers()).unwrap();
        }
    })
    .await;
    let (_script, channel) = channel_to(backend);
    // when the caller does not read
    let response = send(&channel, post(Full::from("read nothing"))).await;
    eventually(|| sent.load(Ordering::SeqCst) == WINDOW).await;
    // then other calls on the connection are answered
    let mut short = post(Full::from("short"));
    let header = HeaderValue::from_static("1");
    short.headers_mut().insert("x-short", header);
    let other = send(&channel, short).await.into_body().collect().await;
    assert_eq!(other.unwrap().trailers().unwrap()["grpc-status"], "0");
    assert_eq!(sent.load(Ordering::SeqCst), WINDOW);
    // and the rest comes when the caller reads
    let body = timeout(SOON, response.into_body().collect()).await.unwrap();
    assert_eq!(body.unwrap().to_bytes().len(), 2 * WINDOW);
}

#[tokio::test]
async fn unread_request_stops_at_the_window_of_the_server() {
    const FRAME: usize = 1 << 10;
    const FRAMES: usize = 1_000;
    // given a server with a window of 65,535 bytes, which reads when the test says so
    let read = Arc::new(Semaphore::new(0));
    let may_read = Arc::clone(&read);
    let backend = server(h2::server::Builder::new(), move |request, mut respond| {
        let read = Arc::clone(&may_read);
        async move {
            if !request.headers().contains_key("x-short") {
                let mut stream = respond.send_response(grpc_head(), false).unwrap();
                let _permit = read.acquire().await.unwrap();
                let size = drain(&mut request.into_body()).await.unwrap();
                assert_eq!(size, FRAME * FRAMES);
                return stream.send_trailers(ok_trailers()).unwrap();
            }
            answer(&mut respond);
        }
    })
    .await;
    let (_script, channel) = channel_to(backend);
    // when the caller sends more than the window, in small frames that are ready at once
    let taken = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&taken);
    let frames = (0..FRAMES).map(move |_| {
        counting.fetch_add(1, Ordering::SeqCst);
        FrameResult::Ok(Frame::data(vec![7; FRAME].into()))
    });
    let body = StreamBody::new(tokio_stream::iter(frames));
    let response = send(&channel, post(body)).await;
    eventually(|| taken.load(Ordering::SeqCst) >= 65_535 / FRAME).await;
    // then other calls pass, and few frames wait: 16 KiB, and two
    for _ in 0..3 {
        let mut short = post(Full::from("short"));
        let header = HeaderValue::from_static("1");
        short.headers_mut().insert("x-short", header);
        let other = send(&channel, short).await.into_body().collect().await;
        assert_eq!(other.unwrap().trailers().unwrap()["grpc-status"], "0");
        let taken = taken.load(Ordering::SeqCst);
        assert!(taken <= (65_535 + 16_384) / FRAME + 2, "{taken}");
    }
    // and the rest is sent when the server reads
    read.add_permits(1);
    let body = timeout(SOON, response.into_body().collect()).await.unwrap();
    assert_eq!(body.unwrap().trailers().unwrap()["grpc-status"], "0");
    assert_eq!(taken.load(Ordering::SeqCst), FRAMES);
}
