const http = require("node:http");
const { WebSocketServer } = require("ws");

const page = `<!doctype html>
<html lang="en">
  <head><title>WebSocket app</title><link rel="icon" href="data:,"></head>
  <body>
    <h1>WebSocket says hello</h1>
    <button type="button">Count</button>
    <p>Counted <output>0</output></p>
    <script>
      const socket = new WebSocket(location.origin.replace("http", "ws") + "/echo");
      socket.onmessage = (event) => { document.querySelector("output").textContent = event.data; };
      document.querySelector("button").onclick = () => socket.send(Number(document.querySelector("output").textContent) + 1);
    </script>
  </body>
</html>`;

const server = http.createServer((request, response) => response.setHeader("Content-Type", "text/html").end(page));
const sockets = new WebSocketServer({ server });
sockets.on("connection", (socket, request) => {
  socket.on("message", (data, isBinary) => socket.send(data, { binary: isBinary }));
});
server.listen(8080, () => console.log("WebSocket listens on 8080"));
