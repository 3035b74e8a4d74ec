// Wraps a monitor in a class: the constructor starts it, the destructor frees it. Build and run:
//
//     c++ -o monitor monitor.cpp $(pkg-config --cflags --libs sonde) && ./monitor

#include <sonde/sonde.h>

#include <cstdio>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

class Monitor {
public:
    explicit Monitor(double interval_sec = 0.1)
    {
        sonde_options options = SONDE_OPTIONS_INIT;
        options.interval_sec = interval_sec;
        sonde_error error;
        sonde_monitor *monitor = nullptr;
        if (sonde_monitor_new(&options, &monitor, &error) < 0)
            throw std::runtime_error(error.text);
        handle_.reset(monitor);
        if (sonde_monitor_start(monitor, &error) < 0)
            throw std::runtime_error(error.text);
    }

    void stop() { sonde_monitor_stop(handle_.get()); }

    sonde_summary summary() const
    {
        sonde_summary summary;
        sonde_monitor_summary(handle_.get(), &summary);
        return summary;
    }

    std::vector<sonde_sample> samples() const
    {
        sonde_sample *array = nullptr;
        std::size_t count = 0;
        if (sonde_monitor_samples(handle_.get(), &array, &count) < 0)
            throw std::bad_alloc();
        std::vector<sonde_sample> samples(array, array + count);
        sonde_free(array);
        return samples;
    }

private:
    struct Free {
        void operator()(sonde_monitor *monitor) const { sonde_monitor_free(monitor); }
    };
    std::unique_ptr<sonde_monitor, Free> handle_;
};

int main()
{
    Monitor monitor(0.02);
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; i++)
        threads.emplace_back([] {
            std::vector<double> numbers(4000000, 1.5);
            volatile double sum = std::accumulate(numbers.begin(), numbers.end(), 0.0);
            (void)sum;
        });
    for (auto &thread : threads)
        thread.join();
    monitor.stop();

    for (const auto &sample : monitor.samples())
        if (sonde_is_known(sample.cpu_percent)) // the first sample has no CPU figure
            std::printf("%6.1f %% CPU %8.1f MB\n", sample.cpu_percent, sample.rss_mb);
    const sonde_summary summary = monitor.summary();
    std::printf("%.1f MB peak, %.3f s CPU\n", summary.peak_rss_mb, summary.cpu_seconds);
}
