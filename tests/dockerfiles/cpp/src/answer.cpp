#include "answer.hpp"

std::string answer(const std::string &greeting) {
    return "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(greeting.size()) + "\r\nConnection: close\r\n\r\n" + greeting;
}
