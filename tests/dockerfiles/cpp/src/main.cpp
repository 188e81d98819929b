#include <arpa/inet.h>
#include <fstream>
#include <sstream>
#include <sys/socket.h>
#include <unistd.h>

#include "answer.hpp"

int main(int count, char **arguments) {
    if (count != 3) return 2;
    int listener = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(std::stoi(arguments[1]));
    if (bind(listener, reinterpret_cast<sockaddr *>(&address), sizeof address) || listen(listener, 16)) return 1;
    for (;;) {
        int client = accept(listener, nullptr, nullptr);
        char request[4096];
        if (read(client, request, sizeof request) > 0) {
            std::stringstream greeting;
            greeting << std::ifstream(arguments[2]).rdbuf();
            std::string text = answer(greeting.str());
            if (write(client, text.data(), text.size()) < 0) return 1;
        }
        close(client);
    }
}
