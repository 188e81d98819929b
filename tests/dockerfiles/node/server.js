const http = require('node:http')
const ms = require('ms')
const { greeting } = require('./greeting.json')

http
  .createServer((_, answer) => {
    answer.setHeader('content-type', 'application/json')
    answer.end(JSON.stringify({ greeting, day: ms('1 day'), uid: process.getuid(), mode: process.env.NODE_ENV }))
  })
  .listen(process.env.PORT)
